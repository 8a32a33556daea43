"""An S3 server in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SECRET = "wJalrXUtnFEMI-never-to-be-shown"
"""The value of AWS_SECRET_ACCESS_KEY."""


@contextmanager
def s3_server() -> Iterator[str]:
    """Run a server on a loopback port for a block, and yield its address. Skips the test without moto or obstore."""
    pytest.importorskip("obstore", reason="obstore is not installed: pip install 'snapdb[remote]'")
    moto = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def use_bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch, name: str = "snaps") -> None:
    """Create a bucket, and set the environment with which clients access it."""
    environment = {
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    boto3 = pytest.importorskip("boto3")
    boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=name)

"""URLs of published databases."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from snapdb.errors import InputError

SCHEMES = ("s3", "gs", "az", "file")
"""The URL schemes of published databases: Amazon S3 and compatible storage, Google Cloud, Azure and local folders."""
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")


def is_url(text: object) -> bool:
    """Return whether a database's path is the URL of a published database.

    >>> is_url("s3://bucket/shop"), is_url("shop.snapdb"), is_url("https://host/shop")
    (True, False, False)
    """
    match = _URL.match(text) if isinstance(text, str) else None
    return match is not None and match[1].lower() in SCHEMES


def check_url(url: str) -> str:
    """Return the URL of a published database without a trailing slash. A path becomes a file URL.

    >>> check_url("s3://bucket/shop/"), check_url("/mnt/nfs/shop")
    ('s3://bucket/shop', 'file:///mnt/nfs/shop')

    Raises:
        InputError: The scheme is not supported, or the URL contains credentials, or it names no bucket or folder.
    """
    match = _URL.match(url)
    if match is None and url.strip() and "\0" not in url:
        return Path(url).expanduser().absolute().as_uri()
    if match is None or match[1].lower() not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise InputError(f"{shown(url)!r} is not the URL of a published database; write one of {known}", code="bad-url")
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise InputError(
            f"{shown(url)!r} contains credentials, which would be stored in logs; remove them, and set them in the "
            "environment, for example as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            code="bad-url",
        )
    if parts.query or parts.fragment:
        raise InputError(f"{shown(url)!r} has a query or a fragment; remove it", code="bad-url")
    place = parts.path.strip("/") if parts.scheme == "file" else parts.netloc
    if not place or (parts.scheme == "file" and parts.netloc):
        what = (
            "absolute path, as in file:///mnt/nfs/shop" if parts.scheme == "file" else "bucket, as in s3://bucket/shop"
        )
        raise InputError(f"{shown(url)!r} has no {what}", code="bad-url")
    return url.rstrip("/")


def shown(url: str) -> str:
    """Return a URL without user, password and query, for messages.

    >>> shown("s3://me:secret@bucket/shop?token=1")
    's3://bucket/shop'
    """
    return re.sub(r"[?#].*$", "", re.sub(r"://[^/@]*@", "://", url))

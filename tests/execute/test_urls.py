"""Files in object storage and on the web are read like local files."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import snapdb
from snapdb.errors import DatabaseError, SnapdbError
from tests.support.inside.remote import open_store
from tests.support.object_storage import SECRET, s3_server, use_bucket
from tests.support.refusals import refused


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The URL of a folder with three Parquet files of ten rows, and a CSV file."""
    use_bucket(endpoint, monkeypatch)
    url = f"s3://snaps/{tmp_path.name}"
    store = open_store(url)
    for day in range(3):
        put_day(url, day)
    store.put("people.csv", b"id,name\n1,ann\n2,bob\n")
    store.put(".hidden.parquet", b"half")
    return url


def put_day(url: str, day: int) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(range(day * 10, day * 10 + 10)), "day": [day] * 10}), sink)
    open_store(url).put(f"day{day}.parquet", sink.getvalue().to_pybytes())


@pytest.fixture
def db(tmp_path: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(tmp_path / "db") as database:
        yield database


def test_queries_and_tables_read_urls(db: snapdb.Database, bucket: str) -> None:
    assert db.execute(f"SELECT count(*), sum(id) FROM '{bucket}/*.parquet'").fetchall() == [(30, 435)]
    assert db.execute(f"FROM read_csv('{bucket}/people.csv')").fetchall() == [(1, "ann"), (2, "bob")]
    assert db.execute("SELECT count(*) FROM read_parquet($file)", {"file": f"{bucket}/day1.parquet"}).fetchall() == [
        (10,)
    ]
    db.execute(f"CREATE TABLE days AS FROM '{bucket}/day0.parquet'")
    db.execute(f"INSERT INTO days FROM '{bucket}/day1.parquet'")
    db.execute(f"COPY days FROM '{bucket}/day2.parquet'")
    assert db.execute("SELECT count(*), sum(id) FROM days").fetchall() == [(30, 435)]


def test_only_new_objects_are_loaded(db: snapdb.Database, bucket: str) -> None:
    db.execute("CREATE TABLE days (id BIGINT, day BIGINT)")
    load = f"COPY days FROM '{bucket}/*.parquet' (NEW FILES ONLY)"
    db.execute(load)
    assert db.execute("SELECT count(*) FROM days").fetchall() == [(30,)]
    assert "no new files" in str(db.execute(load).message)
    put_day(bucket, 3)
    db.execute(load)
    assert db.execute("SELECT count(*), max(day) FROM days").fetchall() == [(40, 3)]
    open_store(bucket).put("day0.parquet", b"another")
    assert "changed, but not loaded again" in str(db.execute(load).message)
    ((paths,),) = db.execute("SELECT count(*) FROM snapdb.loaded_files WHERE path LIKE 's3://%'").fetchall()
    assert paths == 4


def test_a_web_server_is_read(db: snapdb.Database, tmp_path: Path) -> None:
    pytest.importorskip("obstore", reason="obstore is not installed")
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "a.csv").write_text("a\n1\n2\n")
    handler = functools.partial(_Quiet, directory=str(tmp_path / "web"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            assert db.execute(f"SELECT sum(a) FROM '{url}/a.csv'").fetchall() == [(3,)]
            with pytest.raises(SnapdbError):
                db.execute(f"FROM '{url}/b.csv'").fetchall()
        finally:
            server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, also in ranges, without logging."""

    def do_GET(self) -> None:
        """Return a file, or the requested range of it."""
        path, wanted = Path(self.translate_path(self.path)), self.headers.get("Range")
        if wanted is None or not path.is_file():
            super().do_GET()
            return
        content = path.read_bytes()
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1 if last else None]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_errors_name_the_problem_and_no_secret(db: snapdb.Database, bucket: str) -> None:
    with pytest.raises(SnapdbError) as missing:
        db.execute(f"FROM '{bucket}/nothing/*.parquet'")
    with pytest.raises(DatabaseError) as denied:
        db.execute("FROM 's3://no-such-bucket-at-all/x.parquet'")
    for error in (missing.value, denied.value):
        assert SECRET not in str(error)
        assert "Traceback" not in str(error)
    with refused("unwritable-file"):
        db.execute("COPY (SELECT 1 AS a) TO 'https://host/out.parquet'")
    with pytest.raises(DatabaseError) as refused_write:
        db.execute("COPY (SELECT 1 AS a) TO 's3://no-such-bucket-at-all/x.parquet'")
    assert SECRET not in str(refused_write.value)


@pytest.mark.parametrize("ending", ["parquet", "csv", "json", "arrow"])
def test_rows_are_written_to_an_object(db: snapdb.Database, bucket: str, ending: str) -> None:
    db.execute("CREATE TABLE t AS SELECT range AS i FROM range(5)")
    written = db.execute(f"COPY t TO '{bucket}/out/t.{ending}'")
    assert written.message == f"5 rows to {bucket}/out/t.{ending}"
    if ending != "arrow":
        assert db.execute(f"SELECT count(*), sum(i) FROM '{bucket}/out/t.{ending}'").fetchall() == [(5, 10)]
    before = open_store(f"{bucket}/out").get(f"t.{ending}")
    with pytest.raises(SnapdbError):
        db.execute(f"COPY (SELECT CAST('x' || i AS INT) AS i FROM t) TO '{bucket}/out/t.{ending}'")
    assert open_store(f"{bucket}/out").get(f"t.{ending}") == before


def test_folders_can_be_urls(bucket: str, tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "open", folders=[f"{bucket}/"]) as db:
        assert db.execute(f"SELECT count(*) FROM '{bucket}/*.parquet'").fetchall() == [(30,)]
        for other in ("s3://snaps/elsewhere/a.parquet", f"{tmp_path}/x.csv"):
            with refused("folder-not-allowed"):
                db.execute(f"FROM '{other}'")
    with snapdb.connect(tmp_path / "closed", folders=[]) as db:
        with refused("folder-not-allowed"):
            db.execute(f"FROM '{bucket}/day0.parquet'")
        with refused("folder-not-allowed", recorded=False):
            db.execute(f"COPY (SELECT 1 AS a) TO '{bucket}/out.parquet'")


def test_a_task_reads_and_publishes(
    db: snapdb.Database, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    db.execute("CREATE TABLE days (id BIGINT, day BIGINT)")
    body = f"COPY days FROM '{bucket}/*.parquet' (NEW FILES ONLY); PUBLISH TO '{bucket}/published'; PUBLISH TO 'beside'"
    db.execute(f"CREATE TASK nightly SCHEDULE EVERY INTERVAL '1 day' AS $$ {body} $$")
    db.execute("EXECUTE TASK nightly")
    urls = [row[0] for row in db.execute("SHOW PUBLICATIONS").fetchall()]
    assert len(urls) == 2
    assert f"{bucket}/published" in urls
    for url in urls:
        with snapdb.connect(url, cache=db.path.parent / "cache") as copy:
            assert copy.execute("SELECT count(*) FROM days").fetchall() == [(30,)]

"""A database that an earlier commit wrote opens, tells, streams, resumes, replays and goes on as it did then."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import snapdb
from snapdb import Database
from snapdb_cli.main import main
from tests.frozen import cases, catalog, stored, streams, types
from tests.frozen.prints import of_batches
from tests.frozen.surface import RECORDED
from tests.frozen.write_golden import ARCHIVE, BATCHES, GOLDEN, NAME, PLACE

STREAMS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "streams.json").read_text())
REPLAYABLE = [name for name in STREAMS if "SCOPE VISITED" not in STREAMS[name]["lineage"]["sampler"]]
"""Streams whose batches can be made without those before them."""
LISTS = catalog.statements(catalog.LISTS)

pytestmark = [pytest.mark.xdist_group("frozen"), pytest.mark.filterwarnings("ignore::snapdb.DataWarning")]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden folder, which no test changes."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN / ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def golden(unpacked: Path) -> Iterator[Database]:
    """The database as it was written, open for reading only."""
    with snapdb.connect(unpacked / NAME, read_only=True, threads=1) as db:
        yield db


@pytest.fixture
def copy(unpacked: Path, tmp_path: Path) -> Iterator[Database]:
    """A copy that may be written."""
    shutil.copytree(unpacked / NAME, tmp_path / NAME)
    with snapdb.connect(tmp_path / NAME, threads=1) as db:
        yield db


def hashed(path: Path) -> dict[str, str]:
    """Every file and directory, with the sha256 of what is in it."""
    return {
        str(one.relative_to(path)): sha256(one.read_bytes()).hexdigest() if one.is_file() else ""
        for one in path.rglob("*")
    }


def by_statement(text: str) -> dict[str, str]:
    """The parts of a page by the statements that they are of."""
    parts = text.split("## ")[1:]
    return {statement: lines.strip() for statement, _, lines in (part.partition("\n") for part in parts)}


def test_every_stored_type_has_the_fields_that_it_had(unpacked: Path) -> None:
    documents = list(stored.documents(unpacked / NAME))
    for stream in STREAMS.values():
        documents += [("lineage", stream["lineage"]), ("state", stream["state"])]
    found: dict[str, set[str]] = {}
    for name, value in documents:
        for path, names in stored.objects(name, value):
            found.setdefault(path, set()).update(names)
    for table, rows in stored.tables(unpacked / NAME).items():
        if table in types.ROWS:
            found[table] = set(rows[0]) if rows else set(types.ROWS[table].split())
    expected = types.CATALOG | types.FILES | types.ROWS | types.LINEAGE | types.STATE
    assert found == {path: set(names.split()) for path, names in expected.items()}


def test_every_name_on_the_disk_is_as_it_was(unpacked: Path) -> None:
    assert stored.fields(unpacked / NAME) == (GOLDEN / "fields.txt").read_text()


def test_a_new_database_has_no_other_names() -> None:
    """The recorded surface is of a new database: what it stores has a name in the golden one."""
    names = {line.partition(": ")[0] for line in (GOLDEN / "fields.txt").read_text().splitlines()}
    new = {line.partition(": ")[0] for line in (RECORDED / "fields.txt").read_text().splitlines()}
    assert sorted(new - names) == []


@pytest.mark.parametrize("statement", LISTS)
def test_lists_and_descriptions_tell_what_they_told(statement: str, golden: Database, unpacked: Path) -> None:
    told = by_statement((GOLDEN / "lists.txt").read_text())
    made = by_statement(catalog.listed(golden, statement, unpacked, PLACE))
    assert made == {statement: told[statement]}


def test_moments_and_runs_are_what_they_were(golden: Database) -> None:
    assert catalog.exactly(golden) == (GOLDEN / "exact.txt").read_text()


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_gives_what_it_gave(name: str, golden: Database) -> None:
    with golden.stream(STREAMS[name]["query"], threads=0) as stream:
        assert of_batches(stream, ids=True) == STREAMS[name]["first"]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_goes_on_from_a_stored_state(name: str, threads: int, golden: Database) -> None:
    with golden.stream(STREAMS[name]["query"], threads=threads) as stream:
        stream.load_state_dict(STREAMS[name]["state"])
        assert of_batches(stream, ids=True) == STREAMS[name]["rest"]


@pytest.mark.parametrize("name", STREAMS)
def test_a_state_and_a_lineage_are_what_they_were(name: str, golden: Database) -> None:
    with golden.stream(STREAMS[name]["query"], threads=0) as stream:
        stream.load_state_dict(STREAMS[name]["state"])
        state = STREAMS[name]["state"]
        assert json.loads(json.dumps(stream.state_dict())) == state
        own = {"database": str(golden.path), "snapdb": snapdb.__version__, "epoch": state["epoch"]}
        assert json.loads(json.dumps(stream.lineage)) == STREAMS[name]["lineage"] | own


@pytest.mark.parametrize("name", REPLAYABLE)
def test_a_batch_is_made_again_from_a_stored_lineage(name: str, golden: Database) -> None:
    epoch, number = STREAMS[name]["batch"]
    batch = snapdb.replay(STREAMS[name]["lineage"], number, golden)
    assert batch.index == (epoch, number)
    assert of_batches([batch], ids=True) == STREAMS[name]["print"]


def test_batches_are_made_again_when_what_they_came_from_is_gone(copy: Database) -> None:
    copy.script("DROP GRAPH web CASCADE; DROP GRAPH shop CASCADE; DROP GRAPH town CASCADE; DROP TABLE road; VACUUM")
    for name in REPLAYABLE:
        batch = snapdb.replay(STREAMS[name]["lineage"], STREAMS[name]["batch"][1], copy)
        assert of_batches([batch], ids=True) == STREAMS[name]["print"], name


@pytest.mark.parametrize("group", cases.FORMS)
def test_snapshots_give_the_recorded_batches(group: str, golden: Database) -> None:
    """One of 16 cases of each group, over every encoding."""
    recorded = dict(line.rsplit(": ", 1) for line in (RECORDED / f"batches_{group}.txt").read_text().splitlines()[1:])
    for case in list(cases.GROUPS[group].statements)[5::16]:
        assert streams.sampled(golden, group, case) == recorded[case]


def test_exported_batches_are_read(unpacked: Path) -> None:
    batches = snapdb.read_batches(unpacked / BATCHES)
    assert of_batches(batches, ids=True) == STREAMS["sampler"]["first"]
    assert batches.lineage["rng"] == "snapdb-1"


def test_nothing_is_wrong_with_it(unpacked: Path, copy: Database) -> None:
    assert copy.execute("CHECK DATABASE").fetchall() == []
    with snapdb.connect(unpacked / NAME, read_only=True, verify=True) as db:
        assert db.execute("CHECK DATABASE").fetchall() == []


def test_the_command_line_reads_it(copy: Database, tmp_path: Path) -> None:
    stream, path = STREAMS["window"], str(copy.path)
    (tmp_path / "lineage.json").write_text(json.dumps(stream["lineage"]))
    words = ["replay", str(tmp_path / "lineage.json"), "--batch", str(stream["batch"][1]), "--format", "jsonl"]
    for command in (["check", path], ["schedule", "history", path, "--failed"]):
        assert CliRunner().invoke(main, command).exit_code == 0
    done = CliRunner().invoke(main, [*words, "--database", path])
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"{len(done.stdout.splitlines())} edges" in stream["print"]


def test_reading_changes_no_byte(unpacked: Path, tmp_path: Path) -> None:
    shutil.copytree(unpacked / NAME, tmp_path / NAME)
    before = hashed(tmp_path / NAME)
    with snapdb.connect(tmp_path / NAME, read_only=True) as db:
        catalog.listed(db, catalog.LISTS, tmp_path)
        for query in streams.SEEN.values():
            with db.stream(query, threads=1) as stream:
                of_batches(stream, ids=True)
        db.execute(f"COPY SNAPSHOT town_now TO '{tmp_path}/out' (FORMAT npz)")
        assert hashed(tmp_path / NAME) == before
    assert hashed(tmp_path / NAME) == before


def test_it_goes_on(copy: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    copy.script("""
        INSERT INTO road SELECT range * 5 % 80, range * 3 % 80, 300 + range, 2 FROM range(9);
        DELETE FROM road WHERE t = 44;
        UPDATE house SET kind = 'k99' WHERE id = 5;
        REFRESH SNAPSHOT town_now;
        REFRESH SNAPSHOT town_whole FULL;
        EXECUTE TASK steps;
        ALTER TASK ticking RESUME;
        REFRESH CACHE near;
        CREATE OR REPLACE SAMPLER valid AS SAMPLE USING train BATCH 5;
        EXPIRE SNAPSHOTS BY RETENTION;
        VACUUM RETAIN INTERVAL '0 seconds';
    """)
    seeds, clauses = "SELECT id FROM house", "FANOUT (road BOTH => [3, 2]) BATCH 20"
    (refreshed, built) = (
        copy.stream(f"SAMPLE FROM {name} SEEDS ({seeds}) AS house {clauses}", threads=0)
        for name in ("town_now", "town_whole")
    )
    with refreshed, built:
        assert of_batches(refreshed, ids=True) == of_batches(built, ids=True)
    assert copy.execute("CHECK DATABASE").fetchall() == []
    copy.execute(f"BACKUP DATABASE TO '{tmp_path}/backup.snapdb'")

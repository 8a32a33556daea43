"""What FOR EVENT_TIME takes, for every kind of time and at every edge: SQL and samples see the same edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import snapdb
from snapdb import Database
from tests.support.processes import FreshProcess
from tests.support.refusals import refused
from tests.support.thoroughness import some


def held(db: Database, name: str, edge: str = "e", node: str = "v") -> list[Any]:
    """The column n of the edges that a snapshot holds, in order, after a look that samples hold just these, too."""
    rows = db.execute(f"SELECT n, e_id FROM {name}.{edge} ORDER BY n").fetchall()
    seeds = f"SEEDS (SELECT id FROM {name}.{node}) AS {node}"
    vertices = {row[0] for row in db.execute(f"SELECT id FROM {name}.{node}").fetchall()}
    sample = f"SAMPLE FROM {name} {seeds} FANOUT ({edge} => [FULL], {edge} OUT => [FULL]) BATCH 1000"
    found = db.execute(sample).fetchall() if vertices else []
    for direction in ("in", "out"):
        assert sorted(row[6] for row in found if row[3] == direction) == sorted(e_id for _, e_id in rows), direction
    assert {end for row in found for end in row[4:6]} <= vertices
    return [n for n, _ in rows]


def window(db: Database, clause: str, edge: str = "e") -> list[Any]:
    """What a window of graph g holds."""
    db.execute(f"CREATE OR REPLACE SNAPSHOT s OF g {'FOR EVENT_TIME' if clause else ''} {clause}")
    return held(db, "s", edge)


def graph(db: Database, edges: str, time: str = "EVENT TIME (t)") -> None:
    """A graph of five vertices and the edges of a SELECT of n, t, …"""
    db.script(f"""
        CREATE TABLE v AS SELECT range AS id FROM range(5);
        CREATE TABLE e AS SELECT n % 5 AS a, n * 2 % 5 AS b, * FROM ({edges});
        CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v {time})
    """)


INTEGERS = ("TINYINT", "BIGINT", "UBIGINT")
TIMES = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMPTZ", "DATE", "TIMESTAMP_MS")


@pytest.mark.parametrize("kind", [*INTEGERS, *some(TIMES, 4)])
def test_every_kind_of_time_is_cut_where_it_should(db: Database, kind: str) -> None:
    integer = kind in INTEGERS
    moment = f"range::{kind}" if integer else f"(TIMESTAMP '2026-01-01' + INTERVAL 1 DAY * range)::{kind}"
    graph(db, f"SELECT range::INTEGER AS n, {moment} AS t FROM range(9)")

    def day(n: int) -> str:
        return str(n) if integer else f"DATE '2026-01-0{1 + n}'"

    length = "3" if integer else "INTERVAL '3 days'"
    assert window(db, f"AS OF {day(3)}") == [0, 1, 2, 3]
    assert window(db, f"FROM {day(2)} TO {day(5)}") == [2, 3, 4]
    assert window(db, f"BETWEEN {day(2)} AND {day(5)}") == [2, 3, 4, 5]
    assert window(db, f"WINDOW {length}") == [6, 7, 8]
    assert window(db, f"WINDOW {length} ENDING {day(4)}") == [2, 3, 4]
    assert window(db, f"FROM {day(4)} TO {day(4)}") == []


def test_moments_with_an_offset_are_that_moment_in_every_session(
    db: Database, tmp_path: Path, fresh_process: FreshProcess
) -> None:
    script = """
        CREATE TABLE v AS SELECT range AS id FROM range(5);
        CREATE TABLE e AS SELECT n % 5 AS a, n * 2 % 5 AS b, * FROM (VALUES
            (1, '2026-03-01 00:30:00+02'::TIMESTAMPTZ), (2, '2026-02-28 22:30:00+00'::TIMESTAMPTZ),
            (3, '2026-02-28 17:30:01-05'::TIMESTAMPTZ), (4, '2026-02-28 23:00:00'::TIMESTAMPTZ)) q(n, t);
        CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t))
    """
    cases = {
        "AS OF TIMESTAMPTZ '2026-03-01 04:00:00+05:30'": [1, 2],
        "AS OF TIMESTAMP '2026-02-28 22:30:00'": [1, 2],
        "FROM TIMESTAMPTZ '2026-02-28 17:30:01-05' TO DATE '2026-03-01'": [3, 4],
        "AS OF DATE '2026-02-28'": [],
        "WINDOW INTERVAL '30 minutes'": [3, 4],
        "WINDOW INTERVAL '1 second' ENDING TIMESTAMPTZ '2026-02-28 23:30:01+01'": [3],
    }
    db.script(script)
    assert {clause: window(db, clause) for clause in cases} == cases
    said = fresh_process(f"""
import os, time
os.environ["TZ"] = "America/New_York"
time.tzset()
import snapdb
with snapdb.connect({str(tmp_path / "other.snapdb")!r}) as db:
    db.script({script!r})
    for clause in {list(cases)!r}:
        db.execute(f"CREATE OR REPLACE SNAPSHOT s OF g FOR EVENT_TIME {{clause}}")
        print([row[0] for row in db.execute("SELECT n FROM s.e ORDER BY n").fetchall()])
""")
    assert said.stderr == ""
    assert said.stdout.splitlines() == [str(found) for found in cases.values()]


def test_edges_of_one_moment_go_together_in_the_order_they_came(db: Database) -> None:
    graph(db, "SELECT range::INTEGER AS n, [5, 3, 5, 5, 7, 5, 3][1 + range] AS t FROM range(7)")
    db.execute("INSERT INTO e VALUES (0, 0, 7, 5), (0, 0, 8, 3)")
    assert window(db, "AS OF 5") == [0, 1, 2, 3, 5, 6, 7, 8]
    assert window(db, "AS OF 4") == [1, 6, 8]
    assert window(db, "BETWEEN 5 AND 5") == [0, 2, 3, 5, 7]
    sample = "SAMPLE FROM s SEEDS (SELECT id FROM v) AS v FANOUT (e => [FULL]) BATCH 9 IN ORDER"
    db.execute("CREATE OR REPLACE SNAPSHOT s OF g")
    with pytest.raises(snapdb.SnapdbError):  # IN ORDER wants an order
        db.execute(sample).fetchall()
    rows = db.execute(sample.replace("FROM v)", "FROM v ORDER BY id)")).fetchall()
    assert [row[6] for row in rows if row[5] == 0] == [8, 0, 5, 7]


def test_what_has_no_time_is_an_error_or_always_there(db: Database) -> None:
    edges = "SELECT range::INTEGER AS n, CASE WHEN range % 2 = 0 THEN range END AS t FROM range(6)"
    with refused("no-event-time", "NULLS STATIC"):
        graph(db, edges)
    db.script("DROP TABLE e; DROP TABLE v")
    graph(db, edges, "EVENT TIME (t) NULLS STATIC")
    for clause in ("AS OF 2", "BETWEEN 0 AND 2", "WINDOW 3 ENDING 2", "FROM 0 TO 3"):
        assert window(db, clause) == [0, 1, 2, 3, 5], clause
    for clause in ("AS OF (-1)", "FROM 3 TO 3", "FROM 100 TO 200", "WINDOW 1 ENDING 3"):
        assert window(db, clause) == [1, 3, 5], clause
    db.execute("DELETE FROM e WHERE t IS NOT NULL")
    with refused("needs-event-time", at="3"):
        window(db, "WINDOW 3")


LASTING = """SELECT * FROM (VALUES (0, 5, 10), (1, 5, NULL), (2, 7, 7), (3, 0, 5), (4, 10, 12), (5, 9, 10),
             (6, 6, 7)) q(n, t, til)"""


def test_what_lasts_is_there_from_its_start_until_before_its_end(db: Database) -> None:
    graph(db, LASTING, "EVENT TIME (t, til)")
    there = {n: (t, 100 if til is None else til) for n, t, til in db.execute("SELECT n, t, til FROM e").fetchall()}
    for t in (-1, 0, 4, 5, 6, 7, 9, 10, 12):
        assert window(db, f"AS OF ({t})") == sorted(n for n, (a, b) in there.items() if a <= t < b), t


@pytest.mark.parametrize(("start", "stop"), [(5, 10), (7, 8), (6, 7), (7, 7), (10, 11), (0, 5), (-9, 0)])
def test_a_range_holds_what_overlaps_it(db: Database, start: int, stop: int) -> None:
    graph(db, LASTING, "EVENT TIME (t, til)")
    there = {n: (t, 100 if til is None else til) for n, t, til in db.execute("SELECT n, t, til FROM e").fetchall()}
    wanted = sorted(n for n, (a, b) in there.items() if a < stop and b > start)
    assert window(db, f"FROM ({start}) TO ({stop})") == wanted
    if start < stop:
        assert window(db, f"BETWEEN ({start}) AND ({stop - 1})") == wanted
        assert window(db, f"WINDOW {stop - start} ENDING ({stop - 1})") == wanted


def test_an_end_that_is_null_or_infinite_is_none_and_one_before_its_start_is_refused(db: Database) -> None:
    graph(
        db,
        """SELECT n, t::TIMESTAMP AS t, til::TIMESTAMP AS til FROM (VALUES (0, '2026-01-01', 'infinity'),
           (1, '2026-01-02', NULL), (2, '2026-01-01', '2026-01-02')) q(n, t, til)""",
        "EVENT TIME (t, til)",
    )
    assert window(db, "AS OF DATE '2026-01-01'") == [0, 2]
    assert window(db, "AS OF DATE '2999-01-01'") == [0, 1]
    assert window(db, "FROM DATE '2999-01-01' TO DATE '3000-01-01'") == [0, 1]
    db.execute("INSERT INTO e VALUES (1, 1, 3, TIMESTAMP '2026-01-05', TIMESTAMP '2026-01-04')")
    with refused("ends-before-it-begins"):
        window(db, "AS OF DATE '2026-01-01'")
    db.execute("UPDATE e SET til = '-infinity' WHERE n = 3")
    with refused("ends-before-it-begins"):
        window(db, "AS OF DATE '2026-01-01'")


def test_what_lasts_may_have_begun_before_all_time(db: Database) -> None:
    graph(
        db,
        "SELECT * FROM (VALUES (0, NULL, 5), (1, NULL, NULL), (2, 3, 5), (3, 8, NULL)) q(n, t, til)",
        "EVENT TIME (t, til) NULLS STATIC",
    )
    assert window(db, "AS OF 4") == [0, 1, 2]
    assert window(db, "AS OF 5") == [1]
    assert window(db, "FROM 4 TO 9") == [0, 1, 2, 3]
    assert window(db, "") == [0, 1, 2, 3]


def test_a_vertex_that_is_not_born_is_no_seed_no_neighbour_and_no_end(db: Database) -> None:
    db.script("""
        CREATE TABLE v AS SELECT * FROM (VALUES (0, 0), (1, 5), (2, 10), (3, NULL)) q(id, born);
        CREATE TABLE e AS SELECT * FROM (VALUES (0, 1, 0, 1), (1, 0, 1, 6), (2, 2, 0, 3), (3, 0, 3, 2), (4, 2, 2, 12),
            (5, 1, 1, 4)) q(n, a, b, t);
        CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) EVENT TIME (born) NULLS STATIC)
          EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t))
    """)
    found = {}
    for t in (-1, 0, 4, 5, 9, 10, 12):
        found[t] = window(db, f"AS OF ({t})")
        born = [row[0] for row in db.execute("SELECT id FROM s.v ORDER BY id").fetchall()]
        assert born == sorted([3, *(id_ for id_, b in ((0, 0), (1, 5), (2, 10)) if b <= t)])
    assert found == {-1: [], 0: [], 4: [3], 5: [0, 3, 5], 9: [0, 1, 3, 5], 10: [0, 1, 2, 3, 5], 12: [0, 1, 2, 3, 4, 5]}
    assert window(db, "FROM 4 TO 10") == [1, 5]
    with refused("unknown-seed", at="SELECT 2 AS id"):
        db.execute("SAMPLE FROM s SEEDS (SELECT 2 AS id) AS v FANOUT (e => [2])").fetchall()


def test_windows_and_graphs_and_edge_types_may_be_empty(db: Database) -> None:
    db.script("""
        CREATE TABLE v AS SELECT range AS id, range AS w FROM range(0);
        CREATE TABLE e (n BIGINT, a BIGINT, b BIGINT, t BIGINT);
        CREATE TABLE f (n BIGINT, a BIGINT, b BIGINT);
        CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) FEATURES (w)) EDGE TABLES (
          e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t),
          f SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v)
    """)
    for layout in ("full", "ends", "bitmap", "materialized"):
        db.execute(f"CREATE SNAPSHOT {layout}_one OF g WITH (layout = '{layout}')")
        assert db.execute(f"SELECT count(*) FROM {layout}_one.e").fetchone() == (0,)
    assert window(db, "AS OF 5") == []
    db.script("INSERT INTO v VALUES (1, 1), (2, 2); INSERT INTO f VALUES (7, 1, 2), (8, 2, 2)")
    for layout in ("full", "ends", "bitmap", "materialized"):
        db.execute(f"REFRESH SNAPSHOT {layout}_one")
        assert (held(db, f"{layout}_one"), held(db, f"{layout}_one", "f")) == ([], [7, 8])
    db.execute("INSERT INTO e VALUES (1, 1, 2, 5)")
    assert (window(db, "AS OF 4"), window(db, "AS OF 4", "f")) == ([], [7, 8])
    assert (window(db, "AS OF 5"), window(db, "AS OF 5", "f")) == ([1], [7, 8])


def test_a_snapshot_of_an_older_version_holds_what_was_there_then(db: Database) -> None:
    graph(db, "SELECT range::INTEGER AS n, range * 10 AS t FROM range(20)")
    version = db.execute("SHOW VERSIONS").fetchall()[-1][0]
    wanted = {clause: window(db, clause) for clause in ("", "AS OF 95", "FROM 50 TO 120", "WINDOW 45")}
    db.script("""
        INSERT INTO v VALUES (5), (6);
        INSERT INTO e VALUES (5, 1, 100, 15), (1, 6, 101, 95), (2, 2, 102, 500), (0, 0, 103, -5);
        DELETE FROM e WHERE n IN (0, 4, 9, 19);
        UPDATE e SET t = t + 1000 WHERE n IN (2, 10);
    """)
    db.execute("CREATE SNAPSHOT newer OF g")
    assert held(db, "newer") == [1, 2, 3, 5, 6, 7, 8, *range(10, 19), 100, 101, 102, 103]
    for clause, found in wanted.items():
        said = f"FOR EVENT_TIME {clause}" if clause else ""
        for layout in ("", "WITH (layout = 'bitmap')", "WITH (layout = 'materialized')"):
            db.execute(f"CREATE OR REPLACE SNAPSHOT old OF g AT (VERSION => {version}) {said} {layout}")
            assert held(db, "old") == found, (clause, layout)
    assert window(db, "AS OF 95") == [1, 3, 5, 6, 7, 8, 100, 101, 103]
    db.execute("DELETE FROM e WHERE n > 100")
    db.execute("DELETE FROM v WHERE id = 6")
    for at, clause in ((version, "AS OF 95"), (version, "")):
        said = f"FOR EVENT_TIME {clause}" if clause else ""
        db.execute(f"CREATE OR REPLACE SNAPSHOT old OF g AT (VERSION => {at}) {said}")
        assert held(db, "old") == wanted[clause]


def test_edge_types_that_live_at_other_times_share_one_window(db: Database) -> None:
    db.script("""
        CREATE TABLE v AS SELECT range AS id FROM range(5);
        CREATE TABLE e AS SELECT range AS n, range % 5 AS a, range % 3 AS b, range AS t FROM range(10);
        CREATE TABLE f AS SELECT range AS n, range % 3 AS a, range % 5 AS b, range AS t FROM range(100, 110);
        CREATE TABLE h AS SELECT range AS n, range % 3 AS a, range % 5 AS b, 50 + range AS t, 120 AS til FROM range(3);
        CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id)) EDGE TABLES (
          e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t),
          f SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t),
          h SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t, til))
    """)

    def all_three(clause: str) -> tuple[list[int], list[int], list[int]]:
        return window(db, clause), window(db, clause, "f"), window(db, clause, "h")

    assert all_three("AS OF 8") == (list(range(9)), [], [])
    assert all_three("WINDOW 3") == ([], [107, 108, 109], [0, 1, 2])
    assert all_three("FROM 20 TO 50") == ([], [], [])
    assert all_three("AS OF 51") == (list(range(10)), [], [0, 1])
    assert all_three("FROM 120 TO 200") == ([], [], [])
    db.execute("CREATE OR REPLACE SNAPSHOT s OF g FOR EVENT_TIME WINDOW 3 ELEMENTS (e)")
    assert held(db, "s") == [7, 8, 9]


def test_parallel_edges_and_loops_are_edges_of_their_own(db: Database) -> None:
    graph(db, "SELECT range::INTEGER * 5 AS n, range // 2 AS t FROM range(8)")  # all of them loops of vertex 0
    db.execute("INSERT INTO e SELECT 1, 0, 100 + range, 2 FROM range(4)")
    assert window(db, "AS OF 1") == [0, 5, 10, 15]
    assert window(db, "BETWEEN 2 AND 2") == [20, 25, 100, 101, 102, 103]
    sample = "SAMPLE FROM s SEEDS (SELECT id FROM v WHERE id = 0) AS v FANOUT (e {} => [FULL])".format
    counts = {d: len(db.execute(sample(d)).fetchall()) for d in ("IN", "OUT", "BOTH")}
    assert counts == {"IN": 6, "OUT": 2, "BOTH": 8}


@pytest.mark.parametrize(
    ("clause", "first"),
    [
        ("WINDOW INTERVAL '1 month'", "2026-02-28 12:00:00.000001"),
        ("WINDOW INTERVAL '1 month' ENDING TIMESTAMP '2026-03-30 12:00'", "2026-02-28 12:00:00.000001"),
        ("WINDOW INTERVAL '13 months'", "2025-02-28 12:00:00.000001"),
        ("WINDOW INTERVAL '1 month 1 day'", "2026-02-27 12:00:00.000001"),
        ("WINDOW INTERVAL 31 DAYS", "2026-02-28 12:00:00.000001"),
        ("WINDOW INTERVAL (20 + 11) DAY", "2026-02-28 12:00:00.000001"),
        ("WINDOW INTERVAL '1 microsecond'", "2026-03-31 12:00:00"),
        ("WINDOW INTERVAL '1 day' * 31", "2026-02-28 12:00:00.000001"),
        ("WINDOW INTERVAL 20 DAYS + INTERVAL 11 DAYS", "2026-02-28 12:00:00.000001"),
        ("WINDOW (INTERVAL '1 month')", "2026-02-28 12:00:00.000001"),
        ("WINDOW INTERVAL '5000 years'", "-2975-01-01"),
    ],
)
def test_a_window_counts_back_from_its_last_moment_by_the_calendar(db: Database, clause: str, first: str) -> None:
    days = "SELECT (TIMESTAMP '2025-01-31 12:00' + INTERVAL 1 DAY * range) AS t FROM range(425)"
    graph(db, f"SELECT row_number() OVER (ORDER BY t)::INTEGER AS n, t FROM ({days})")
    db.execute(
        "INSERT INTO e SELECT 1, 1, 9000 + range, TIMESTAMP '2026-02-28 12:00' + INTERVAL 1 MICROSECOND * range "
        "FROM range(-1, 2)"
    )
    ending = "2026-03-30 12:00" if "ENDING" in clause else "2026-03-31 12:00"
    wanted = f"SELECT n FROM e WHERE t >= TIMESTAMP '{first}' AND t <= TIMESTAMP '{ending}' ORDER BY n"
    if first.startswith("-"):
        wanted = "SELECT n FROM e ORDER BY n"
    assert window(db, clause) == [row[0] for row in db.execute(wanted).fetchall()]


def test_a_window_of_numbers_may_reach_beyond_the_first_and_the_last_event(db: Database) -> None:
    graph(db, "SELECT range::INTEGER AS n, range * 10 - 20 AS t FROM range(5)")
    assert window(db, "WINDOW 1") == [4]
    assert window(db, "WINDOW 11") == [3, 4]
    assert window(db, "WINDOW 10") == [4]
    assert window(db, "WINDOW 9223372036854775807") == [0, 1, 2, 3, 4]
    assert window(db, "WINDOW 25 ENDING 1000") == []
    assert window(db, "WINDOW 1000 ENDING 1000") == [3, 4]
    assert window(db, "WINDOW 25 ENDING (-15)") == [0]
    with refused("out-of-range", at="0"):
        window(db, "WINDOW 0")


@pytest.mark.parametrize("length", ["86400000 * 30", "(86400000 * 30)", "(86400000) * (29 + 1)", "30 * 24 * 3_600_000"])
def test_a_length_may_be_computed_with_and_without_parentheses(db: Database, length: str) -> None:
    graph(db, "SELECT range::INTEGER AS n, range * 86400000 AS t FROM range(100)")
    assert window(db, f"WINDOW {length}") == list(range(70, 100))
    assert window(db, f"WINDOW {length} ENDING (86400000 * 49) WHERE e.n <> 40") == [*range(20, 40), *range(41, 50)]
    db.execute(f"CREATE OR REPLACE SNAPSHOT s OF g FOR EVENT_TIME WINDOW {length}")
    db.execute("INSERT INTO e SELECT 0, 0, 100, 8640000000")
    db.execute("REFRESH SNAPSHOT s")
    assert held(db, "s") == list(range(71, 101))


def test_a_word_after_a_computed_length_is_shown_by_itself(db: Database) -> None:
    graph(db, "SELECT range::INTEGER AS n, range AS t FROM range(5)")
    text = "CREATE SNAPSHOT s OF g FOR EVENT_TIME WINDOW 2 * 3 WHER e.n > 1"
    with refused("unexpected-word", '"WHERE"', at="WHER") as caught:
        db.execute(text)
    assert caught.value.span is not None
    assert text[slice(*caught.value.span)] == "WHER"

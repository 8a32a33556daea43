"""Every page of the recorded surface is what the product gives now.

A page that differs on purpose is written anew by `SNAPDB_RECORD=1 pytest -n 0 tests/frozen/test_surface.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import pytest

import snapdb
from tests.frozen.surface import PAGES, READ, RECORDED, Place, filled
from tests.support.refusals import RECORD

pytestmark = [pytest.mark.xdist_group("frozen"), pytest.mark.filterwarnings("ignore::snapdb.DataWarning")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The recorded database, by one thread and under a name that no machine chooses."""
    folder = tmp_path_factory.mktemp("frozen")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SNAPDB_AUTHOR", "frozen")
        with snapdb.connect(folder / "frozen.snapdb", threads=1) as db:
            yield filled(db, folder)


def compare(name: str, made: str) -> None:
    """Nothing where the page is as it was recorded; with SNAPDB_RECORD it is recorded."""
    page = RECORDED / f"{name}.txt"
    if RECORD:
        page.write_text(made, "utf-8")
    recorded, now = page.read_text("utf-8").splitlines(), made.splitlines()
    if name.startswith("batches_"):
        cases = {line.partition(": ")[0] for line in now}
        recorded = [line for line in recorded if line.partition(": ")[0] in cases]
        assert len(recorded) == len(now)
    lines = difflib.unified_diff(recorded, now, "recorded", "now", n=0)
    differing = "\n".join(line[:500] for line in list(lines)[:60])
    assert not differing, f"{name} differs; SNAPDB_RECORD=1 writes it anew, where that is meant\n{differing}"


@pytest.mark.parametrize("name", READ)
def test_a_database_gives_what_it_gave(name: str, place: Place) -> None:
    compare(name, READ[name](place))


@pytest.mark.parametrize("name", PAGES)
def test_names_and_helps_are_what_they_were(name: str) -> None:
    compare(name, PAGES[name]())


def test_every_recorded_page_is_made() -> None:
    assert {page.stem for page in RECORDED.glob("*")} == {*PAGES, *READ}

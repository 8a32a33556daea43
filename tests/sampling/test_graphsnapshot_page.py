"""docs/refresh.md lists the guarantees of GraphSnapShot's strategies, each with its test."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.support.places import ROOT

PAGE = ROOT / "docs" / "refresh.md"
MARK = (
    "<!-- generated from the tests: SNAPDB_RECORD=1 pytest tests/sampling/test_graphsnapshot_page.py rewrites it -->\n"
)
NAME = re.compile(r"test_statement_(\d\d)_\w+")

MEASURED = {
    19: "The benchmark measures how the cost of SCOPE VISITED grows with the visited nodes and with all nodes.",
    22: "The benchmark measures the memory of the process, including all caches.",
    23: "On graphs larger than memory, the benchmark measures disk reads on cache hits and in refreshes.",
    24: "In memory, the benchmark measures the cost of caches, partial refreshes and partial fetches.",
    25: "The benchmark measures the time per batch under each strategy, relative to FBL.",
    26: "The benchmark compares the break-even period with its estimate, and EVERY AUTO with FBL.",
    27: "The benchmark compares training accuracy with that of FBL, over several random seeds.",
}
LEFT_OUT = {
    28: "An LRU buffer is not implemented: caches hold the rows with the most expected visits instead.",
    31: "The first prototype's exchange of static and dynamic nodes is not implemented.",
}
NUMBERS = range(1, 33)


class NumberedTest(NamedTuple):
    """A test of a numbered statement, as its module has it."""

    number: int
    name: str
    says: str
    """What holds; empty where another test of the statement says so."""
    source: str


Tests = list[NumberedTest]


def numbered_in(module: str) -> Iterator[NumberedTest]:
    """The tests of numbered statements in a module beside, in its order."""
    text = (ROOT / "tests" / "sampling" / f"{module}.py").read_text()
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and (numbered := NAME.fullmatch(node.name)):
            first = min(each.lineno for each in (node, *node.decorator_list))
            source = "\n".join(lines[first - 1 : node.end_lineno])
            yield NumberedTest(int(numbered[1]), node.name, ast.get_docstring(node) or "", source)


def numbered_tests() -> Mapping[int, Tests]:
    """Statement → its tests; the first one's docstring says what holds."""
    found: dict[int, Tests] = {}
    for module in ("test_graphsnapshot", "test_graphsnapshot_caches"):
        for test in numbered_in(module):
            found.setdefault(test.number, []).append(test)
    return {number: sorted(tests, key=lambda test: not test.says) for number, tests in found.items()}


def line(number: int, tests: Tests) -> str:
    """A statement's line of the table."""
    controlled = any("original." in test.source for test in tests)
    said = tests[0].says.replace("\n", " ")
    return f"| {number} | {said} | `{tests[0].name}` | {'reproduced' if controlled else ''} |"


def table() -> str:
    """All statements."""
    tests = numbered_tests()
    rows = [line(number, tests[number]) for number in sorted(tests)]
    rows += [f"| {number} | {said} | [measured](../benchmarks/REFRESH.md) | |" for number, said in MEASURED.items()]
    rows += [f"| {number} | {said} | not built | |" for number, said in LEFT_OUT.items()]
    ordered = sorted(rows, key=lambda row: int(row.split("|")[1]))
    return "\n".join(["| | property | test | error of the original |", "|---|---|---|---|", *ordered, ""])


def test_every_statement_is_tested_measured_or_left_out_and_says_what_holds() -> None:
    tests = numbered_tests()
    assert sorted([*tests, *MEASURED, *LEFT_OUT]) == list(NUMBERS)
    assert all(found[0].says and not any(test.says for test in found[1:]) for found in tests.values())


def test_the_page_lists_the_statements_with_their_tests() -> None:
    written, mark, _ = PAGE.read_text().partition(MARK)
    assert mark, "docs/refresh.md has no generated part"
    expected = f"{written}{mark}\n{table()}"
    if os.environ.get("SNAPDB_RECORD"):
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected, "SNAPDB_RECORD=1 writes the table anew"

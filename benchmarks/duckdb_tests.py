"""Reads DuckDB's own test files: the statements of a file in order, with its loops unrolled.

The format: https://duckdb.org/docs/current/dev/sqllogictest/intro
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

WHOLE = {"insert", "update", "delete", "select", "cte"}
"""The folders of which every file is taken. Files of the other folders are taken at equal distances."""
FOLDERS = WHOLE | {"aggregate", "function", "join", "subquery", "types", "window"}
TURNS = 30
"""The number of turns after which a loop ends."""
_GROUPS = {
    "<signed>": "tinyint smallint integer bigint hugeint",
    "<unsigned>": "utinyint usmallint uinteger ubigint uhugeint",
    "<integral>": "tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint",
    "<numeric>": "tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint float double",
    "<alltypes>": "bool tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint float "
    "double varchar date timestamp interval",
}
_FOUND_HERE = {"64bit", "core_functions", "icu", "json", "parquet", "vector_size", "skip_reload", "ram", "notwindows"}
"""What `require` lines may ask for."""
_SETTINGS = {"hash-threshold", "onlyif", "skipif", "set", "reset", "tags", "unset", "endloop"}
_LOOPS = {"loop", "foreach", "concurrentloop", "concurrentforeach"}


class UnreadableError(Exception):
    """The file needs what the comparison does not have, such as a second connection or an extension."""


def chosen(folder: Path, number: int) -> list[Path]:
    """Return `number` of the test files below DuckDB's `test/sql`, the same for the same files."""
    files = {name: sorted((folder / name).rglob("*.test")) for name in sorted(FOLDERS) if (folder / name).is_dir()}
    whole = [file for name in files if name in WHOLE for file in files[name]]
    rest = [file for name in files if name not in WHOLE for file in files[name]]
    step = max(1.0, len(rest) / max(1, number - len(whole)))
    return whole + [rest[int(i * step)] for i in range(int(len(rest) / step))]


def statements(file: Path) -> list[str]:
    """Return the statements of a file.

    Raises:
        UnreadableError: Some of the file cannot be compared.
    """
    return list(_read(file.read_text(encoding="utf-8").splitlines()))


def _read(lines: Sequence[str]) -> Iterator[str]:
    skipping, at = False, 0
    while at < len(lines):
        words = lines[at].split()
        at += 1
        if not words or words[0].startswith("#") or words[0] in _SETTINGS:
            continue
        match words[0]:
            case "loop" | "foreach":
                end = _end(lines, at)
                for value in _values(words):
                    yield from _read([_filled(line, words[1], value) for line in lines[at : end - 1]])
                at = end
            case "require" if words[1] in _FOUND_HERE or words[1].startswith("no"):
                continue
            case "mode":
                skipping = words[1] == "skip" or (skipping and words[1] != "unskip")
            case "halt":
                return
            case "statement" | "query":
                if words[0] == "statement" and len(words) > 2:
                    raise UnreadableError("several connections")
                end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
                text = list(itertools.takewhile(lambda line: line.strip() != "----", lines[at:end]))
                at = end
                if not skipping:
                    yield "\n".join(text)
            case word:
                raise UnreadableError(word)


def _end(lines: Sequence[str], at: int) -> int:
    """Return the number of the line after a loop's `endloop`."""
    depth = 1
    while depth and at < len(lines):
        word = (lines[at].split() or [""])[0]
        depth += (word in _LOOPS) - (word == "endloop")
        at += 1
    return at


def _values(words: Sequence[str]) -> list[str]:
    """Return the values over which a loop runs."""
    if words[0] == "foreach":
        return [value for word in words[2:] for value in _GROUPS.get(word, word).split()][:TURNS]
    try:
        return [str(value) for value in range(int(words[2]), int(words[3]))][:TURNS]
    except ValueError:
        raise UnreadableError("loop") from None


def _filled(line: str, names: str, value: str) -> str:
    parts = value.split(",") if "," in names else [value]
    for name, part in zip(names.split(","), parts, strict=False):
        line = line.replace(f"${{{name}}}", part).replace(f"{{{name}}}", part)
    return line

"""What must hold of rows before features are made of them: each rule a condition that no row may meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from snapdb.errors import DataError
from snapdb.relational import ROW_ID, Session, quote
from snapdb.storage.feature_types import FeatureSource, Part, parts_of
from snapdb.types import FeatureSpec

_ID = quote(ROW_ID)


class Rule(NamedTuple):
    """One thing that must not be."""

    broken: str
    """SQL condition on a row."""
    found: str
    """What those rows have, for the message."""
    advice: str


def check_features(session: Session, source: FeatureSource, specs: Sequence[FeatureSpec]) -> None:
    """Nothing when every feature can be built.

    Raises:
        DataError: NULL or NaN without a DEFAULT, a value that the type cannot hold, lists of different lengths, or
            sparse rows that are none; it counts them and shows three ids.
    """
    own = [spec for spec in specs if spec.history is None]
    rules = [rule for spec in own for rule in (_sparse_rules if spec.sparse else _dense_rules)(source, spec)]
    check_rules(session, source, rules)
    for spec in own:
        for part in () if spec.sparse else parts_of(source, spec):
            if part.fixed is None:
                _check_even(session, source, part)


def check_rules(session: Session, source: FeatureSource, rules: Sequence[Rule]) -> None:
    """Nothing when no row breaks a rule, which one pass over the rows tells.

    Raises:
        DataError: it counts the rows that break the first such rule and shows three ids.
    """
    if not rules:
        return
    counts = ", ".join(f"count_if({rule.broken})" for rule in rules)
    for rule, count in zip(rules, session.rows(f"SELECT {counts} FROM ({source.rows})")[0], strict=True):
        if count:
            who = f"1 row of {source.element} has" if count == 1 else f"{count} rows of {source.element} have"
            raise DataError(
                f"{who} {rule.found} (ids {_shown(session, source, rule.broken)}); {rule.advice}", code="bad-feature"
            )


def _dense_rules(source: FeatureSource, spec: FeatureSpec) -> Iterator[Rule]:
    """The rules for columns that are laid side by side."""
    for part in parts_of(source, spec):
        if spec.default is None:
            advice = f"fix them, or say FEATURES ({part.name} DEFAULT 0)"
            yield Rule(part.missing, f'NULL or NaN in feature column "{part.name}"', advice)
        if (misfit := part.misfit) is not None:
            yield _fits(part, misfit)


def _sparse_rules(source: FeatureSource, spec: FeatureSpec) -> Iterator[Rule]:
    """The rules for a list of indices and a list of values, which are implied ones where there is no such column."""
    index, value = parts_of(source, spec)
    names = [f'"{name}"' for name in dict.fromkeys((index.name, value.name))]
    both, i, v = f"list{'s' * (len(names) > 1)} {' and '.join(names)}", index.sql, value.sql
    empty = f"an empty row has empty lists, as coalesce({index.name}, []) makes them"
    yield Rule(f"{i} IS NULL OR {v} IS NULL", f"NULL in the {both} of a sparse feature", empty)
    each = "each index needs a value"
    yield Rule(f"len({i}) <> len({v})", f"{both} of different lengths", each)
    holes = "leave out what is not there"
    yield Rule(f"{index.missing} OR {value.missing}", f"NULL or NaN within the {both}", holes)
    if spec.width is None:
        outside, range_ = f"list_min({index.plain}) < 0", "0 or more"
    else:
        outside = f"list_min({index.plain}) < 0 OR list_max({index.plain}) >= {spec.width}"
        range_ = f"less than {spec.width}, and not less than 0"
    yield Rule(outside, f'an index out of range in "{index.name}"', f"indices are {range_}")
    twice = "add up their values when loading"
    yield Rule(f"len(list_distinct({index.plain})) < len({i})", f'an index twice in "{index.name}"', twice)
    if (misfit := value.misfit) is not None:
        yield _fits(value, misfit)


def _fits(part: Part, misfit: str) -> Rule:
    found = f'a value in feature column "{part.name}" of type {part.type} that does not fit {part.dtype}'
    return Rule(misfit, found, "change them, or say another TYPE")


def _check_even(session: Session, source: FeatureSource, part: Part) -> None:
    found = f"SELECT len({part.sql}), count(*) FROM ({source.rows}) WHERE {part.sql} IS NOT NULL"
    lengths = session.rows(f"{found} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 4")
    if len(lengths) > 1:
        found = ", ".join(f"{length} in {count} rows" for length, count in lengths[:3])
        raise DataError(
            f'feature column "{part.name}" of {source.element} is ragged: lengths {found}; '
            f"a feature has one length: pad the lists, or say SPARSE",
            code="ragged-feature",
        )


def _shown(session: Session, source: FeatureSource, condition: str) -> str:
    key = ", ".join(f"CAST({quote(name)} AS VARCHAR)" for name in source.key)
    rows = session.rows(f"SELECT {key} FROM ({source.rows}) WHERE {condition} ORDER BY {_ID} LIMIT 3")
    return ", ".join(str(row[0]) if len(row) == 1 else f"({', '.join(map(str, row))})" for row in rows)

"""The lineage of batches: the part that is added when a sampler is opened, and the parser that a replay uses."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from snapdb.errors import FormatError, InputError, SnapdbError
from snapdb.execute.session import ExecutionContext
from snapdb.graph.layout import Codings
from snapdb.graph.open import Pinned, definition_digest, pinned
from snapdb.plan.queries import Parameters
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.bind import REPEATABLE
from snapdb.release import __version__
from snapdb.sql import parse
from snapdb.sql.lexer import scan
from snapdb.sql.samples import Sample
from snapdb.storage.catalog_db.codec import decode
from snapdb.types import RNG_SCHEME, IdType, SampleSpec, Snapshot, Window
from snapdb.types.sampling import ZeroWeight

_GIVE = "pass batch.lineage, the result of json.load, or a manifest"

_FIELDS: dict[str, tuple[type, ...]] = {
    "database": (str,),
    "snapshot": (str,),
    "version": (int,),
    "window": (list, tuple),
    "definition": (str,),
    "pinned": (Mapping,),
    "tables_version": (int,),
    "tables_digest": (str,),
    "given_seeds": (bool,),
    "sampler": (str,),
    "seeds": (str,),
    "seed": (int,),
    "generation": (int,),
}
"""The required fields of a batch's lineage and their types."""
_MORE: dict[str, tuple[type, ...]] = {
    "epoch": (int,),
    "seed_query": (str,),
    "parameters": (Mapping, list),
    "zero_weight": (str,),
    "ids": (str,),
    "classes": (Mapping,),
    "widths": (Mapping,),
}
"""The optional fields and their types."""
_CODINGS = ("classes", "widths")


def sample_lineage(context: ExecutionContext, plan: SamplePlan) -> dict[str, object]:
    """Return the origin of a sampler's seeds, as JSON-serializable values."""
    version = context.catalog.version
    outside = {"seed_query": plan.outside} if plan.outside else {}
    return {
        "tables_version": version,
        "tables_digest": tables_digest(context, version),
        "given_seeds": plan.outside is not None,
        **outside,
        **_parameters(context.bind_context.parameters, named_parameters(plan.spec.text, plan.outside)),
    }


def tables_digest(context: ExecutionContext, version: int) -> str | None:
    """Return a version's hash, which covers all earlier versions, or None if the version does not exist."""
    rows = context.store.catalog_db.rows("SELECT hash FROM versions WHERE version = ?", (version,))
    return rows[0]["hash"] if rows else None


def named_parameters(*texts: str | None) -> set[str]:
    """Return the parameters in the given texts, as written: $name, ? or $1."""
    return {token.text for text in texts if text for token in scan(text) if token.kind == "parameter"}


def _parameters(given: Parameters, named: set[str]) -> dict[str, object]:
    """Return the given values that the statement uses, or no values if one is not JSON-serializable."""
    if given is None or not named:
        return {}
    try:
        if isinstance(given, Mapping):
            return {"parameters": {name: plain(value) for name, value in given.items() if f"${name}" in named}}
        return {"parameters": plain([*given])}
    except TypeError:
        return {}


@dataclass(frozen=True, slots=True)
class Past:
    """A past state of a database and a sampler."""

    database: str
    """The path of the database directory."""
    snapshot: str
    version: int
    window: Window
    pinned: Pinned
    tables_version: int
    """The version of the tables from which the seeds were read."""
    tables_digest: str
    sampler: Sample
    given_seeds: bool
    """Whether the seeds were passed from Python, as a SELECT or as ids."""
    seed_query: str | None
    """The SELECT that was passed as seeds."""
    seeds: str
    """The digest of the seed set."""
    parameters: Parameters
    generation: int
    """The generation of a neighbor pool's rows."""
    zero_weight: ZeroWeight
    """Whether edges of weight 0 are sampled."""
    ids: IdType
    """The type of node ids."""
    epoch: int | None
    """The epoch, or None for every epoch."""
    codings: Codings | None
    """The classes that codes represent and the widths of sparse features, or None if an older snapdb wrote the lineage
    without them."""

    def drawn(self, spec: SampleSpec) -> SampleSpec:
        """Return the spec with the fields that are recorded only in the lineage."""
        drawing = replace(spec.drawing, zero_weight=self.zero_weight)
        return replace(spec, generation=self.generation, drawing=drawing, ids=self.ids)

    def fits(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot has the content that this lineage describes, regardless of its name."""
        window = Window(snapshot.window.start, snapshot.window.stop)
        return (snapshot.version, window, pinned(snapshot)) == (self.version, self.window, self.pinned)


def codings_in(lineage: Mapping[str, object]) -> Codings | None:
    """Return the classes and widths in a lineage, or None if an older snapdb wrote it without them."""
    recorded = {name: value for name in _CODINGS if isinstance(value := lineage.get(name), Mapping)}
    return recorded if len(recorded) == len(_CODINGS) else None


def read_lineage(lineage: object) -> Past:
    """Parse the lineage of a batch, a stream or a manifest.

    Raises:
        InputError: The value is not a batch lineage, is incomplete or has been changed.
        FormatError: The lineage has a different random number scheme.
    """
    if isinstance(lineage, Mapping) and isinstance(lineage.get("lineage"), Mapping):
        lineage = lineage["lineage"]
    if not isinstance(lineage, Mapping):
        raise InputError(f"the argument of replay must be a lineage, found {lineage!r:.60}; {_GIVE}", code="lineage")
    _check_scheme(lineage)
    _check_fields(lineage)
    return Past(
        database=lineage["database"],
        snapshot=lineage["snapshot"],
        version=lineage["version"],
        window=Window(*lineage["window"]),
        pinned=_pinned(lineage),
        tables_version=lineage["tables_version"],
        tables_digest=lineage["tables_digest"],
        sampler=_sampler(lineage),
        given_seeds=lineage["given_seeds"],
        seed_query=lineage.get("seed_query"),
        seeds=lineage["seeds"],
        parameters=_parameters_of(lineage.get("parameters")),
        generation=lineage["generation"],
        zero_weight="WITH ALL" if lineage.get("zero_weight") is None else "NEVER",
        ids="int64" if lineage.get("ids") is None else "int32",
        epoch=lineage.get("epoch"),
        codings=codings_in(lineage),
    )


def _check_scheme(lineage: Mapping[Any, Any]) -> None:
    scheme = lineage.get("rng", RNG_SCHEME)
    if scheme == RNG_SCHEME:
        return
    newer = isinstance(scheme, str) and re.fullmatch(r"snapdb-\d+", scheme, re.ASCII)
    what = f"install the snapdb version that created it ({lineage.get('snapdb')!r:.40})" if newer else _GIVE
    raise FormatError(
        f"this lineage has rng scheme {scheme!r:.40}, but snapdb {__version__} uses {RNG_SCHEME}; {what}",
        code="rng-scheme",
    )


def _check_fields(lineage: Mapping[Any, Any]) -> None:
    """Raise InputError unless all required fields are present and have the right types."""
    if "definition" in lineage and "sampler" not in lineage:
        raise InputError(
            f"this is the lineage of snapshot {lineage.get('snapshot')}, not of a batch; {_GIVE}", code="lineage"
        )
    if missing := [name for name in ("rng", *_FIELDS) if name not in lineage]:
        raise InputError(
            f"this lineage is incomplete, or was created without a database: it has no {', '.join(missing)}; {_GIVE}",
            code="lineage",
        )
    for name, kinds in (_FIELDS | _MORE).items():
        value = lineage.get(name)
        odd = isinstance(value, bool) and bool not in kinds
        if odd or (not isinstance(value, kinds) and (name in _FIELDS or value is not None)):
            raise _damaged(f"its {name} is {value!r:.60}")
    if lineage.get("seed_query") is not None and not lineage["given_seeds"]:
        raise _damaged("it has a seed_query, but no seeds were passed")
    if lineage.get("zero_weight") not in (None, "NEVER"):
        raise _damaged(f"its zero_weight is {lineage['zero_weight']!r:.60}")
    if lineage.get("ids") not in (None, "int32"):
        raise _damaged(f"its ids are {lineage['ids']!r:.60}")
    if not 0 <= lineage["generation"] < 2**31:
        raise _damaged(f"its generation is {lineage['generation']}")
    bounds = lineage["window"]
    if len(bounds) != 2 or not all(one is None or (type(one) is int and -(2**63) <= one < 2**63) for one in bounds):
        raise _damaged(f"its window is {bounds!r:.60}")
    if not 0 < lineage["version"] <= lineage["tables_version"]:
        raise _damaged(f"it has version {lineage['version']}, but its seeds have version {lineage['tables_version']}")


def _pinned(lineage: Mapping[Any, Any]) -> Pinned:
    try:
        text = json.dumps(lineage["pinned"])
        pin = decode(Pinned, text)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise _damaged("its field pinned is not a graph") from error
    if definition_digest(json.loads(text)) != lineage["definition"]:
        raise _damaged("its fields definition and pinned do not match")
    return pin


def _sampler(lineage: Mapping[Any, Any]) -> Sample:
    try:
        (statement,) = parse(lineage["sampler"])
    except (ValueError, SnapdbError) as error:
        raise _damaged(f"its sampler is not a statement: {lineage['sampler']!r:.60}") from error
    if not isinstance(statement, Sample) or statement.snapshot.text.lower() != lineage["snapshot"].lower():
        raise _damaged(f"its sampler is not a SAMPLE FROM {lineage['snapshot']}: {lineage['sampler']!r:.60}")
    repeatable = statement.clauses.repeatable
    if lineage["seed"] != (REPEATABLE if repeatable is None else repeatable.value):
        raise _damaged(f"its seed is {lineage['seed']}, which differs from its sampler")
    return statement


def _parameters_of(plain: Any) -> Parameters:
    try:
        if isinstance(plain, Mapping):
            return {name: _valued(one) for name, one in plain.items()}
        return None if plain is None else [_valued(one) for one in plain]
    except (TypeError, ValueError, ArithmeticError) as error:
        raise _damaged(f"its parameters are {plain!r:.60}") from error


def _damaged(what: str) -> InputError:
    return InputError(f"this lineage is damaged: {what}; {_GIVE}", code="lineage")


class _Kind(NamedTuple):
    """The conversions of a type that JSON does not have."""

    type: type
    text: Callable[[Any], str]
    value: Callable[[str], Any]


_MICROSECOND = timedelta(microseconds=1)
_KINDS = {
    "TIMESTAMP": _Kind(datetime, datetime.isoformat, datetime.fromisoformat),
    "DATE": _Kind(date, date.isoformat, date.fromisoformat),
    "TIME": _Kind(time, time.isoformat, time.fromisoformat),
    "INTERVAL": _Kind(timedelta, lambda value: str(value // _MICROSECOND), lambda text: int(text) * _MICROSECOND),
    "DECIMAL": _Kind(Decimal, str, Decimal),
    "DOUBLE": _Kind(float, repr, float),
    "UUID": _Kind(UUID, str, UUID),
    "BLOB": _Kind(bytes, bytes.hex, bytes.fromhex),
}
"""Maps SQL type names to their conversions. The first match applies, because a datetime is also a date."""
_STRUCT = "STRUCT"


def plain(value: object) -> object:
    """Return a value as JSON-serializable data: unchanged if JSON has its type, or else as its type and text.

    >>> plain([5, "a", date(2026, 7, 1)])
    [5, 'a', {'DATE': '2026-07-01'}]

    Raises:
        TypeError: The type cannot be represented.
    """
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {_STRUCT: {str(name): plain(one) for name, one in value.items()}}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    for name, kind in _KINDS.items():
        if isinstance(value, kind.type):
            return {name: kind.text(value)}
    raise TypeError(f"a {type(value).__name__} has no plain form")


def _valued(plain: Any) -> Any:
    """Return the value from which `plain` created this data.

    >>> _valued({"STRUCT": {"day": {"DATE": "2026-07-01"}, "least": 5}})
    {'day': datetime.date(2026, 7, 1), 'least': 5}

    Raises:
        ValueError, ArithmeticError: The text is not a value of its type.
    """
    if isinstance(plain, list):
        return [_valued(one) for one in plain]
    if not isinstance(plain, Mapping):
        return plain
    ((name, inner),) = plain.items()
    if name == _STRUCT:
        return {key: _valued(one) for key, one in dict(inner).items()}
    if name not in _KINDS:
        raise ValueError(f"type {name} does not exist")
    return _KINDS[name].value(inner)

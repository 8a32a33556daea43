"""Samples, random walks and samplers: SAMPLE, WALK, AUDIT, CREATE SAMPLER and their clauses."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import lark

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import Pairs, Run, Token, says, top_level
from snapdb.sql.printer import print_creation, print_name, print_statement
from snapdb.sql.sample_clauses import (
    Clauses,
    FanoutClause,
    KnownClause,
    MethodClause,
    NegativesClause,
    RefreshClause,
    SeedsClause,
    WeightColumn,
    print_clauses,
)
from snapdb.sql.syntax import (
    UNITS,
    Family,
    Name,
    Place,
    Spanned,
    SqlFragment,
    Statement,
    Tree,
    decimal,
    first_tree,
    fragment,
    has,
    integer,
    leaves,
    name,
    once,
    size,
    span_of,
    string,
    trees,
)
from snapdb.sql.unsupported import refuse_parameters
from snapdb.sql.walk_clauses import VisitsClause, WalkClauses, build_visits, build_walk_clause
from snapdb.types import FULL, Backend, Direction, IdType, Method, SeedOrder, by_word, did_you_mean


@dataclass(frozen=True, slots=True)
class Sample(Statement):
    """SAMPLE FROM snapshot or WALK FROM snapshot, and its clauses.

    SEEDS is required, and so is FANOUT for samples and LENGTH for walks.
    """

    reads: ClassVar[bool] = True

    snapshot: Name
    clauses: Clauses

    @property
    def seeds(self) -> SeedsClause:
        assert self.clauses.seeds is not None, "the parser wants SEEDS"
        return self.clauses.seeds

    @property
    def fanouts(self) -> tuple[FanoutClause, ...]:
        """The items of FANOUT. Empty for BY WALKS, and for walks."""
        clause = self.clauses.fanouts
        return () if clause is None or isinstance(clause.value, VisitsClause) else clause.value

    @property
    def visits(self) -> VisitsClause | None:
        """FANOUT (BY WALKS …), or None."""
        clause = self.clauses.fanouts
        return clause.value if clause is not None and isinstance(clause.value, VisitsClause) else None

    @property
    def fanout_span(self) -> Span:
        """The span of FANOUT."""
        assert self.clauses.fanouts is not None, "the parser wants FANOUT of samples"
        return self.clauses.fanouts.span

    def to_sql(self) -> str:
        head = f"{self.clauses.verb} FROM {print_name(self.snapshot)}"
        return print_statement(head, *print_clauses(self.clauses))


@dataclass(frozen=True, slots=True)
class SampleUsing(Statement):
    """SAMPLE USING sampler or WALK USING sampler [clauses that replace those of the sampler]."""

    reads: ClassVar[bool] = True

    sampler: Name
    clauses: Clauses
    only_name: bool = False
    """Whether only the name of the sampler was given, so that the sampler decides whether it samples or walks."""

    def to_sql(self) -> str:
        head = f"{self.clauses.verb} USING {print_name(self.sampler)}"
        return print_statement(head, *print_clauses(self.clauses))


@dataclass(frozen=True, slots=True)
class CreateSampler(Statement):
    """CREATE [OR REPLACE] SAMPLER [IF NOT EXISTS] name AS SAMPLE … | WALK …."""

    name: Name
    sample: Sample | SampleUsing
    or_replace: bool
    if_not_exists: bool

    def to_sql(self) -> str:
        head = print_creation("SAMPLER", self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists)
        return print_statement(f"{head} AS", self.sample.to_sql())


@dataclass(frozen=True, slots=True)
class Audit(Statement):
    """AUDIT SAMPLE … or AUDIT WALK …, which checks a sampler's batches."""

    reads: ClassVar[bool] = True

    sample: Sample | SampleUsing

    def to_sql(self) -> str:
        return f"AUDIT {self.sample.to_sql()}"


def _create(tree: Tree, place: Place) -> CreateSampler:
    sampler, sample = leaves(tree)[0], _inner(tree, place)
    return CreateSampler(*place, name(sampler), sample, has(tree, "replace"), has(tree, "guard"))


def _audit(tree: Tree, place: Place) -> Audit:
    return Audit(*place, _inner(tree, place))


def _inner(tree: Tree, place: Place) -> Sample | SampleUsing:
    """Build the SAMPLE or WALK statement inside another statement."""
    sample = trees(tree)[-1]
    return _sampled(sample, Place(place.source, span_of(sample)))


def _sampled(tree: Tree, place: Place) -> Sample | SampleUsing:
    of = name(leaves(tree)[0])
    clauses = _build_clauses(once(trees(tree)), place.source, walks=tree.data in ("walk", "walk_using"))
    if tree.data in ("using", "walk_using"):
        return SampleUsing(*place, of, clauses)
    if clauses.seeds is None:
        raise _lacking("SEEDS clause; add e.g. SEEDS (SELECT id FROM t) AS vertex_type", place)
    if clauses.walk is not None and clauses.walk.length is None:
        raise _lacking("LENGTH clause; add the number of steps, e.g. LENGTH 80", place)
    if clauses.walk is None and clauses.fanouts is None:
        raise _lacking("FANOUT clause; add e.g. FANOUT (DEFAULT => [10, 10])", place)
    return Sample(*place, of, clauses)


def _lacking(what: str, place: Place) -> ParseError:
    return ParseError(f"expected a {what}", span=Span(place.span.stop, place.span.stop), code="missing-clause")


_Known = Literal["EVER", "BEFORE", "AT"]

_Strategy = Literal["FBL", "FCR", "OTF"]

_METHODS: dict[str, Method] = by_word(Method)

_KNOWN: dict[str, _Known] = by_word(_Known)

_EXCLUDED: dict[str, Literal["NONE", "BOTH"]] = {"KEEP": "NONE", "BOTH": "BOTH"}

_ORDERS: dict[str, SeedOrder] = {"SHUFFLE": "SHUFFLE", "IN": "IN ORDER", "FIXED": "FIXED"}

_DIRECTIONS: dict[str, Direction] = by_word(Direction)

_STRATEGIES: dict[str, _Strategy] = by_word(_Strategy)

_BACKENDS: dict[str, Backend] = by_word(Backend)

_ID_TYPES: dict[str, IdType] = {"int64": "int64", "int32": "int32"}


def _build_clauses(given: Mapping[str, Tree], source: str, *, walks: bool) -> Clauses:
    # SEEDS and SEEDS EDGES are different grammar rules, so `once` does not detect that both are present.
    if "seeds" in given and "seed_edges" in given:
        later = max(span_of(given["seeds"]), span_of(given["seed_edges"]))
        raise ParseError("SEEDS is specified twice; keep one", span=later, code="duplicate-clause")
    clauses: dict[str, Any] = {}
    walk: dict[str, Any] = {}
    for rule, tree in given.items():
        if (walked := build_walk_clause(rule, tree)) is not None:
            walk.update([walked])
        elif rule == "within":
            clauses[rule] = _within(tree, source)
        elif rule == "options":
            clauses.update(_options(tree))
        else:
            field, build = _BUILDERS[rule]
            clauses[field] = build(tree)
    return Clauses(**clauses, walk=WalkClauses(**walk) if walks else None)


def _seeds(tree: Tree) -> SeedsClause:
    query, vertex = leaves(tree)
    return SeedsClause(fragment(query), name(vertex), False, span_of(tree))


def _seed_edges(tree: Tree) -> SeedsClause:
    edge, query = leaves(tree)
    return SeedsClause(fragment(query), name(edge), True, span_of(tree))


def _fanout(tree: Tree) -> tuple[FanoutClause, ...] | VisitsClause:
    """Build the items of FANOUT, or BY WALKS."""
    visits = first_tree(tree, "visits")
    return tuple(map(_item, trees(tree))) if visits is None else build_visits(visits)


def _item(tree: Tree) -> FanoutClause:
    """Build an item of FANOUT: an edge type or DEFAULT, an optional direction, and the counts."""
    words = leaves(tree)
    # The DEFAULT keyword is not in the tree, so the first token can be the direction.
    edge = words.pop(0) if words and words[0].type not in _DIRECTIONS else None
    return FanoutClause(
        edge=None if edge is None else name(edge),
        direction=_DIRECTIONS[words[0].type] if words else "IN",
        counts=tuple(FULL if leaves(count) else integer(trees(count)[0], "FANOUT") for count in trees(tree)),
        span=span_of(tree),
    )


def _method(tree: Tree) -> MethodClause:
    dependent = first_tree(tree, "dependent")
    batches = 1 if dependent is None else integer(trees(dependent)[0], "DEPENDENT BATCHES")
    return MethodClause(_METHODS[leaves(tree)[0].type], batches, span_of(tree))


def _weight(tree: Tree) -> WeightColumn:
    *edge, column = leaves(tree)
    return (name(edge[0]) if edge else None), name(column)


def _within(tree: Tree, source: str) -> Spanned[SqlFragment]:
    span = span_of(trees(tree)[0])
    return Spanned(SqlFragment(source[span.start : span.stop], span), span_of(tree))


def _negatives(tree: Tree) -> NegativesClause:
    weighted = first_tree(tree, "weighted")
    weight: Name | Literal["DEGREE"] | None = None
    if weighted is not None:
        (by,) = leaves(weighted)
        weight = "DEGREE" if by.type == "DEGREE" else name(by)
    return NegativesClause(integer(trees(tree, "number")[0], "NEGATIVES"), weight, span_of(tree))


def _known(tree: Tree) -> KnownClause:
    """Build EXCLUDE KNOWN. The default is EVER."""
    when, among = leaves(tree), first_tree(tree, "among")
    types = () if among is None else tuple(name(leaf) for leaf in leaves(among)[1:])
    return KnownClause(_KNOWN[when[0].type] if when else "EVER", types, span_of(tree))


def _options(tree: Tree) -> dict[str, Spanned[Any]]:
    """Return the options of WITH (memory = '2GB', ids = 'int32'), each with the span of WITH."""
    options: dict[str, Spanned[Any]] = {}
    for option in trees(tree, "option"):
        key, value = leaves(option)
        name = key.lower()
        if name not in _OPTIONS:
            near = did_you_mean(key, list(_OPTIONS)) or f"; the options of SAMPLE are {' and '.join(_OPTIONS)}"
            raise ParseError(f"unknown option {key[:40]} in WITH{near}", span=span_of(key), code="unknown-option")
        if name in options:
            raise ParseError(f"{name} is specified twice; keep one", span=span_of(option), code="duplicate-clause")
        options[name] = Spanned(_OPTIONS[name](value), span_of(tree))
    return options


def _memory(value: lark.Token) -> int:
    if not (bytes_ := size(string(value))):
        raise ParseError(
            f"memory must be a size such as '2GB' ({', '.join(UNITS)}), found {value[:40]}",
            span=span_of(value),
            code="bad-size",
        )
    return bytes_


def _ids(value: lark.Token) -> IdType:
    if (ids := _ID_TYPES.get(string(value).lower())) is None:
        raise ParseError(f"ids must be 'int64' or 'int32', found {value[:40]}", span=span_of(value), code="bad-ids")
    return ids


_OPTIONS: dict[str, Callable[[lark.Token], object]] = {"memory": _memory, "ids": _ids}


def _refresh(tree: Tree) -> RefreshClause:
    """Build REFRESH."""
    # The grammar accepts one percentage for OTF, so only the other parts can be repeated by mistake.
    clauses = once(clause for clause in trees(tree) if clause.data != "percent")
    percent = first_tree(tree, "percent")
    return RefreshClause(
        strategy=_STRATEGIES[leaves(tree)[0].type],
        percent=None if percent is None else decimal(trees(percent)[0], "OTF"),
        every=_every(clauses["every"]) if "every" in clauses else None,
        amplify=decimal(trees(clauses["amplify"])[0], "AMPLIFY") if "amplify" in clauses else None,
        fetch=decimal(trees(trees(clauses["fetch"])[0])[0], "FETCH") if "fetch" in clauses else None,
        scope=_scope(clauses["scope"]) if "scope" in clauses else None,
        shared="shared" in clauses,
        above=integer(trees(clauses["above"])[0], "DEGREE ABOVE") if "above" in clauses else None,
        span=span_of(tree),
    )


def _every(tree: Tree) -> int | Literal["AUTO"]:
    return integer(trees(tree)[0], "EVERY") if trees(tree) else "AUTO"


def _scope(tree: Tree) -> Literal["ALL", "VISITED"]:
    return "ALL" if leaves(tree)[0].type == "ALL" else "VISITED"


def _spanned(read: Callable[[Tree], object]) -> Callable[[Tree], Spanned[object]]:
    """Return a builder for a clause with one value."""
    return lambda tree: Spanned(read(tree), span_of(tree))


def _number(clause: str) -> Callable[[Tree], Spanned[object]]:
    """Return a builder for a clause with an integer."""
    return _spanned(lambda tree: integer(trees(tree)[0], clause))


_BUILDERS: dict[str, tuple[str, Callable[[Tree], object]]] = {
    "seeds": ("seeds", _seeds),
    "seed_edges": ("seeds", _seed_edges),
    "fanout": ("fanouts", _spanned(_fanout)),
    "method": ("method", _method),
    "weight_by": ("weights", _spanned(lambda tree: tuple(map(_weight, trees(tree, "column"))))),
    "replacement": ("replace", _spanned(lambda tree: leaves(tree)[0].type == "WITH")),
    "temporal": ("temporal", _spanned(lambda tree: leaves(tree)[0].type == "UP_TO_TIME")),
    "negatives": ("negatives", _negatives),
    "known": ("known", _known),
    "exclude": ("exclude", _spanned(lambda tree: _EXCLUDED[leaves(tree)[0].type] if leaves(tree) else "PAIR")),
    "subset": ("subset", _spanned(lambda tree: decimal(trees(tree)[0], "SUBSET"))),
    "duplicates": ("allow_duplicates", _spanned(lambda _: True)),
    "layout": ("layout", _spanned(lambda tree: "BLOCKS" if leaves(tree)[0].type == "BLOCKS" else "NODES")),
    "reuse": ("reuse_hops", _spanned(lambda _: True)),
    "order": ("order", _spanned(lambda tree: _ORDERS[leaves(tree)[0].type])),
    "batch": ("batch", _number("BATCH")),
    "repeatable": ("repeatable", _number("REPEATABLE")),
    "epochs": ("epochs", _number("EPOCHS")),
    "refresh": ("refresh", _refresh),
    "device": ("device", _spanned(lambda tree: string(leaves(tree)[0]))),
    "backend": ("backend", _spanned(lambda tree: _BACKENDS[leaves(tree)[-1].type.lower()])),
}
"""Maps each rule to a field of `Clauses` and its builder. WITHIN is missing because it requires the source text."""


def _fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the seed query, the lengths after INTERVAL, and IN before a parenthesis."""
    for index in top_level(tokens, pairs):
        if index not in pairs or not index:
            continue
        if tokens[index - 1].word == "SEEDS" or (index > 2 and says(tokens, index - 3, "SEEDS", "EDGES")):
            yield Run("QUERY", index + 1, pairs[index])
        elif tokens[index - 1].word == "INTERVAL":
            yield Run("EXPRESSION", index + 1, pairs[index])
        elif tokens[index - 1].word == "IN":
            # IN ORDER may follow too, and the LALR(1) parser cannot look ahead past IN.
            yield Run("AMONG", index - 1, index)


def _check(tokens: Sequence[Token]) -> None:
    if tokens[0].word == "CREATE":
        refuse_parameters(tokens, "a sampler")


FAMILY = Family(
    grammar="samples",
    builders={**dict.fromkeys(("sample", "using", "walk", "walk_using"), _sampled), "audit": _audit, "create": _create},
    fragments=_fragments,
    check=_check,
)

"""Scheduled tasks: CREATE TASK, ALTER TASK and EXECUTE TASK."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Literal
from zoneinfo import available_timezones

import lark
from cronsim import CronSim, CronSimError

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.sql.explain import Explain
from snapdb.sql.lexer import Pairs, Rewritten, Run, Token, scan, top_level
from snapdb.sql.printer import print_creation, print_name, print_statement, print_string
from snapdb.sql.syntax import (
    Family,
    Leaf,
    Name,
    Place,
    Reader,
    SqlFragment,
    Statement,
    Tree,
    first_tree,
    fragment,
    has,
    integer,
    leaves,
    name,
    once,
    part,
    span_of,
    string,
    trees,
)
from snapdb.sql.task_bodies import _PLACEHOLDER, PLACEHOLDERS, filled, named_paths
from snapdb.sql.unsupported import refuse_parameters, unknown_statement, unsupported
from snapdb.sql.versions import Begin, Commit, Rollback
from snapdb.types import by_word, did_you_mean


@dataclass(frozen=True, slots=True)
class Schedule:
    """SCHEDULE 'USING CRON …' or SCHEDULE EVERY INTERVAL …. Exactly one of the two is present."""

    cron: str | None
    """The five fields and the time zone after USING CRON."""
    every: SqlFragment | None
    """The INTERVAL after EVERY."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class TaskOption:
    """An item in a task's WITH or SET clause."""

    name: Literal["timeout", "retries", "overlap", "catch_up", "notify"]
    value: str | int | None
    """The value. None, which only notify accepts, clears the option."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class CreateTask(Statement):
    """CREATE [OR REPLACE] TASK [IF NOT EXISTS] name SCHEDULE … [WHEN (…)] [WITH (…)] AS statement | $$ … $$."""

    name: Name
    schedule: Schedule
    when: SqlFragment | None
    options: tuple[TaskOption, ...]
    body: SqlFragment
    """The text after AS as written, including dollar quotes. Placeholders such as {date} are not filled in."""
    or_replace: bool
    if_not_exists: bool

    def to_sql(self) -> str:
        return print_statement(
            print_creation("TASK", self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists),
            _print_schedule(self.schedule),
            self.when and f"WHEN ({self.when.text})",
            bool(self.options) and f"WITH {_print_options(self.options)}",
            f"AS {self.body.text}",
        )


@dataclass(frozen=True, slots=True)
class AlterTask(Statement):
    """ALTER TASK name SUSPEND | RESUME | SET (option = value, …)."""

    name: Name
    action: Literal["SUSPEND", "RESUME", "SET"]
    options: tuple[TaskOption, ...]
    """The options in SET. There is at least one."""

    def to_sql(self) -> str:
        options = f" {_print_options(self.options)}" if self.options else ""
        return print_statement(f"ALTER TASK {print_name(self.name)}", f"{self.action}{options}")


@dataclass(frozen=True, slots=True)
class ExecuteTask(Statement):
    """EXECUTE TASK name."""

    name: Name

    def to_sql(self) -> str:
        return f"EXECUTE TASK {print_name(self.name)}"


_Option = Literal["timeout", "retries", "overlap", "catch_up", "notify"]

_OPTIONS: dict[str, _Option] = by_word(_Option)

_TAKEN: dict[str, tuple[str, ...]] = {"overlap": ("skip", "queue"), "catch_up": ("none", "last", "all")}
"""The words that are valid values of an option."""


_ADDRESS = re.compile(r"\w{1,64}", re.ASCII)
"""The name of an address."""


def _create(tree: Tree, place: Place, reader: Reader) -> CreateTask:
    task, body = leaves(tree)
    clauses = once(trees(tree))
    _check_body(body, reader.script)
    return CreateTask(
        *place,
        name=name(task),
        schedule=_schedule(clauses["schedule"], place.source),
        when=part(tree, "when"),
        options=_options(clauses.get("options")),
        body=fragment(body),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
    )


def _alter(tree: Tree, place: Place) -> AlterTask:
    task, *action = leaves(tree)
    settings = first_tree(tree, "set")
    if settings is not None:
        return AlterTask(*place, name=name(task), action="SET", options=_options(settings))
    return AlterTask(*place, name(task), "SUSPEND" if action[0].type == "SUSPEND" else "RESUME", ())


def _schedule(tree: Tree, source: str) -> Schedule:
    """Build SCHEDULE from a cron line, or from an interval as written."""
    every = first_tree(tree, "interval")
    if every is not None:
        span = span_of(every)
        return Schedule(None, SqlFragment(source[span.start : span.stop], span), span_of(tree))
    (leaf,) = leaves(tree)
    return Schedule(cron(string(leaf), span_of(leaf)), None, span_of(tree))


def _options(tree: Tree | None) -> tuple[TaskOption, ...]:
    if tree is None:
        return ()
    options = [_option(option) for option in trees(tree)]
    for index, option in enumerate(options):
        if option.name in {before.name for before in options[:index]}:
            raise ParseError(f"{option.name} is specified twice; keep one", span=option.span, code="duplicate-clause")
    return tuple(options)


def _option(tree: Tree) -> TaskOption:
    key, *words = leaves(tree)
    option = _OPTIONS.get(key.lower())
    if option is None:
        hint = did_you_mean(key, _OPTIONS) or f"; the options are {', '.join(_OPTIONS)}"
        raise ParseError(f"unknown task option {key[:40]}{hint}", span=span_of(key), code="unknown-option")
    value: Tree | Leaf = words[0] if words else trees(tree)[0]
    span = span_of(tree)
    match option:
        case "retries":
            return TaskOption(option, _count(value), span)
        case "timeout":
            return TaskOption(option, _length(value), span)
        case "notify":
            return TaskOption(option, _address(value), span)
        case _:
            return TaskOption(option, _word(option, value), span)


def _count(value: Tree | Leaf) -> int:
    if isinstance(value, lark.Token) or value.data != "number":
        raise ParseError(f"retries must be an integer, found {_shown(value)}", span=span_of(value), code="bad-number")
    if not 0 <= (count := integer(value, "retries")) <= 100:
        raise ParseError(f"retries must be from 0 to 100, found {count}", span=span_of(value), code="bad-number")
    return count


def _length(value: Tree | Leaf) -> str:
    """Return the text of a duration, which is a string or an INTERVAL."""
    match value:
        case lark.Token(type="STRING"):
            return string(value)
        case lark.Tree(data="length"):
            number, *unit = leaves(value)
            return " ".join((string(number) if number.type == "STRING" else number, *unit))
        case _:
            raise ParseError(
                f"timeout must be a string such as '30 minutes', found {_shown(value)}",
                span=span_of(value),
                code="bad-option",
            )


def _address(value: Tree | Leaf) -> str | None:
    """Return the case-folded name of an address, or None for NULL and ''."""
    if isinstance(value, lark.Token):
        if value.type != "STRING" and value.upper() == "NULL":
            return None
        word = string(value) if value.type == "STRING" else name(value).text
        if not word:
            return None
        if _ADDRESS.fullmatch(word):
            return word.lower()
    message = (
        "notify must be the name of an address, of at most 64 letters, digits and underscores, such as 'ops'; put the "
        "address itself into the environment of the scheduler, for ops as SNAPDB_NOTIFY_OPS"
    )
    if "/" in _shown(value):  # it may be the address itself, a secret, so the error has no excerpt of the statement
        raise ParseError(message, text="", code="bad-option")
    raise ParseError(message, span=span_of(value), code="bad-option")


def _word(option: _Option, value: Tree | Leaf) -> str:
    """Return the value of an option that accepts only certain words, quoted or unquoted."""
    if isinstance(value, lark.Token):
        word = (string(value) if value.type == "STRING" else name(value).text).lower()
        if word in _TAKEN[option]:
            return word
    raise ParseError(
        f"{option} must be one of {', '.join(_TAKEN[option])}, found {_shown(value)}",
        span=span_of(value),
        code="bad-option",
    )


def _shown(value: Tree | Leaf) -> str:
    return " ".join([value] if isinstance(value, lark.Token) else leaves(value))[:40]


def _check_body(body: Leaf, parse: Callable[[str], tuple[Statement, ...]]) -> None:
    """Raise a body's first error, with its span in the source. `parse` receives the text with sample values."""
    start, text = _inside(body)
    sample = filled(text, PLACEHOLDERS)
    try:
        _check(scan(sample.text))
        statements = parse(sample.text)
        if not statements:
            raise ParseError(
                "the body of the task is empty; write a statement between $$ and $$",
                span=Span(0, len(sample.text)),
                code="empty-task",
            )
        _check_statements(statements)
        named_paths(sample.text)
    except SnapdbError as error:
        if error.span is not None:
            error.span = _placed(error.span, sample, start)
            # The user wrote the placeholder, so the message must not show its sample value.
            placeholder = _PLACEHOLDER.fullmatch(text[error.span.start - start : error.span.stop - start])
            if placeholder is not None and error.code == "unexpected-word":
                message = error.message.replace(PLACEHOLDERS[placeholder[1]], placeholder[0])
                error.message = (
                    f"{message}, which expands to digits; begin a name with a letter, such as s_{placeholder[0]}"
                )
        raise


def _inside(body: Leaf) -> tuple[int, str]:
    """Return the start of a body's statements in the source, and their text without dollar quotes."""
    span = span_of(body)
    if body.type != "STRING":
        return span.start, str(body)
    if not body.startswith("$"):
        raise ParseError(
            "the body of a task must be a statement, or several between $$ and $$; remove the quotes",
            span=span,
            code="quoted-task",
        )
    edge = body.index("$", 1) + 1
    return span.start + edge, body[edge:-edge]


def _check(tokens: tuple[Token, ...]) -> None:
    """Raise ParseError for parts that a task must not contain: parameters, other tasks, and unknown placeholders."""
    refuse_parameters(tokens, "a task")
    words = [token.word for token in tokens]
    for index, token in enumerate(tokens):
        if token.word == "TASK" and index and words[index - 1] in {"CREATE", "REPLACE"}:
            raise unsupported(
                "CREATE TASK in a task", "a task cannot create tasks", "write it as a separate statement", token.span
            )
        if words[index : index + 3 : 2] == ["{", "}"] and tokens[index + 1].kind == "word":
            word, known = tokens[index + 1].text, ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            if word in PLACEHOLDERS:  # it would be filled in if it were written without spaces
                raise ParseError(
                    f"{{{word}}} must not contain spaces inside its braces; remove the spaces",
                    span=tokens[index + 1].span,
                    code="unknown-placeholder",
                )
            hint = did_you_mean(word, PLACEHOLDERS) or f"; the placeholders are {known}"
            raise ParseError(
                f"unknown placeholder {{{word[:40]}}}{hint}", span=tokens[index + 1].span, code="unknown-placeholder"
            )


def _check_statements(statements: Sequence[Statement]) -> None:
    """Raise ParseError for EXECUTE TASK, and for a transaction that the body does not both begin and end."""
    begun: Span | None = None
    for statement in statements:
        inner = statement
        # EXPLAIN ANALYZE runs the statement inside it, so that statement is checked.
        while isinstance(inner, Explain):
            inner = inner.statement
        match inner:
            case ExecuteTask():
                raise unsupported(
                    "EXECUTE TASK in a task",
                    "a task cannot run another task",
                    "write the statements of that task here",
                    inner.span,
                )
            case Begin() if begun is not None:
                raise _unpaired("BEGIN in an open transaction; COMMIT or ROLLBACK that first", inner.span)
            case Begin():
                begun = inner.span
            case Commit() | Rollback():
                if begun is None:
                    raise _unpaired("no transaction is open here; write BEGIN before its first statement", inner.span)
                begun = None
    if begun is not None:
        raise _unpaired("the task does not end its transaction; add COMMIT", begun)


def _unpaired(message: str, span: Span) -> ParseError:
    return ParseError(message, span=span, code="task-transaction")


def _placed(span: Span, sample: Rewritten, start: int) -> Span:
    """Map a span of the text with sample values to a span of the source."""
    first, stop = sample.place(span.start), sample.place(span.stop)
    return Span(start + first, start + max(first, stop))


@dataclass(frozen=True, slots=True)
class _Field:
    """A cron field and its range of values."""

    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()
    """The names of the field's first values."""
    bounds: str = ""
    """A description of the field's values, or '' for a range of numbers."""
    more: str = ""
    """A pattern for additional valid items."""
    example: str = "1-5"


_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")

_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31, more="LW?", example="1-5, L for the last one"),
    _Field("month", 1, 12, _MONTHS, "1 to 12 or JAN to DEC"),
    _Field(
        "day of the week",
        0,
        7,
        _DAYS,
        "0 to 7 or SUN to SAT",
        rf"[0-7]L|(?:[0-7]|{'|'.join(_DAYS)})#[1-5]",
        "MON-FRI, FRI#2 for the second of a month, 5L for the last one",
    ),
)
"""The fields in the order of a cron line. Sunday is 0 or 7."""

_ITEM = re.compile(r"(?:\*|(\d{1,2}|[A-Z]{3})(?:-(\d{1,2}|[A-Z]{3}))?)(?:/(\d{1,2}))?", re.ASCII)

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_NO_ZONES = {"Factory", "localtime"}
"""Names that denote a different time zone on each machine."""


def cron(text: str, span: Span) -> str:
    """Normalize the five fields and the zone of 'USING CRON …' to capitals and single spaces, or raise ParseError.

    >>> cron("using cron 0 3 * * mon-fri  Europe/Berlin", Span(0, 0))
    '0 3 * * MON-FRI Europe/Berlin'
    >>> cron("USING CRON 0 3 L * *", Span(0, 0))
    '0 3 L * * UTC'
    """
    words = text.split()
    nickname = next((word for word in words if word.startswith("@")), None)
    if nickname is not None:
        line = _NICKNAMES.get(nickname.lower(), "0 3 * * * UTC")
        raise _bad(f"SCHEDULE does not support {nickname[:40]}; write 'USING CRON {line}'", span)
    if [word.upper() for word in words[:2]] != ["USING", "CRON"]:
        way = "'USING CRON 0 3 * * * UTC' or EVERY INTERVAL '1 day'"
        hint = f"; write 'USING CRON {text[:40]}'" if len(words) in {len(_FIELDS), len(_FIELDS) + 1} else ""
        raise _bad(f"SCHEDULE must be {way}, found '{text[:40]}'{hint}", span)
    arguments = words[2:]
    fields, zones = [word.upper() for word in arguments[: len(_FIELDS)]], arguments[len(_FIELDS) :] or ["UTC"]
    if len(fields) < len(_FIELDS) or fields[-1] == "UTC" or len(zones) > 1 or not zones[0][0].isalpha():
        names = ", ".join(field.name for field in _FIELDS)
        raise _bad(
            f"USING CRON must have {names} and may have a time zone, such as 0 3 * * * Europe/Berlin; found "
            f"'{' '.join(arguments)[:60]}'",
            span,
        )
    for word, allowed in zip(fields, _FIELDS, strict=True):
        if not all(_fits(item, allowed) for item in word.split(",")):
            bounds = allowed.bounds or f"{allowed.least} to {allowed.most}"
            raise _bad(
                f"the {allowed.name} of USING CRON must be {bounds}, such as *, 5, {allowed.example}, */10 or a list "
                "with "
                f"commas; found {word[:40]}",
                span,
            )
    _check_zone(zones[0], span)
    _check_days(" ".join(fields), span)
    return " ".join((*fields, *zones))


def _bad(message: str, span: Span) -> ParseError:
    return ParseError(message, span=span, code="bad-schedule")


def _fits(item: str, field: _Field) -> bool:
    """Return whether an item of a field denotes values within the field's bounds."""
    if field.more and re.fullmatch(field.more, item):
        return True
    match = _ITEM.fullmatch(item)
    if match is None:
        return False
    first, last, step = match.groups()
    low = field.least if first is None else _value(first, field)
    high = field.most if first is None else low if last is None else _value(last, field)
    if step is not None and (int(step) == 0 or (low == high and last is not None)):  # CronSim parses 5-5/10 as 5/10
        return False
    return field.least <= low <= high <= field.most


def _value(text: str, field: _Field) -> int:
    """Return the number that a value or name denotes, or -1 if the text is neither."""
    if text.isdigit():
        return int(text)
    return field.words.index(text) + field.least if text in field.words else -1


def _check_zone(zone: str, span: Span) -> None:
    if zone not in _zones():
        hint = did_you_mean(zone, _zones()) or "; write an IANA name such as UTC or Europe/Berlin"
        raise _bad(f'unknown time zone "{zone[:60]}" in USING CRON{hint}', span)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones() - _NO_ZONES)


def _check_days(line: str, span: Span) -> None:
    """Raise ParseError for a cron line whose days do not exist in any year."""
    # CronSim searches the next 50 years from the given date. The year 2000 is a leap year.
    try:
        next(CronSim(line, datetime(2000, 1, 1)))
    except (CronSimError, StopIteration):
        raise _bad(
            f"USING CRON {line} never starts a run, because its months do not have that day; choose another day", span
        ) from None


def _print_schedule(schedule: Schedule) -> str:
    if schedule.every is not None:
        return f"SCHEDULE EVERY {schedule.every.text}"
    return f"SCHEDULE {print_string(f'USING CRON {schedule.cron}')}"


def _print_options(options: Sequence[TaskOption]) -> str:
    written = (f"{o.name} = {_print_value(o.value)}" for o in options)
    return f"({', '.join(written)})"


def _print_value(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    return print_string(value) if isinstance(value, str) else str(value)


def _fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the condition of WHEN, a length in parentheses, and the body unless it is a single string."""
    for index in top_level(tokens, pairs):
        word = tokens[index].word
        if word == "AS":
            if [token.kind for token in tokens[index + 1 :]] != ["string"]:
                yield Run("STATEMENT", index + 1, len(tokens))
            return
        if word in {"WHEN", "INTERVAL"} and index + 1 in pairs:
            yield Run("CONDITION" if word == "WHEN" else "EXPRESSION", index + 2, pairs[index + 1])


def _check_leading(tokens: Sequence[Token]) -> None:
    if tokens[0].word == "CREATE":
        refuse_parameters(tokens, "a task")
    elif tokens[0].word == "EXECUTE" and tokens[1].word != "TASK":
        raise unknown_statement(tokens, ())


FAMILY = Family(
    grammar="tasks",
    builders={"alter": _alter, "execute": lambda tree, place: ExecuteTask(*place, name=name(leaves(tree)[0]))},
    nesting={"create": _create},
    fragments=_fragments,
    check=_check_leading,
)

"""A statement's readable syntax, such as `CREATE [ OR REPLACE ] TAG name`, from the grammar that parses it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_SHORT = 36
"""The maximum length of a rule that is expanded where it is used. A longer rule is defined after the statement."""
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"i?|([A-Za-z_]\w*)|([()|?*+])|\s+')
_RULE = re.compile(r"^(\w+): (.*(?:\n +\|.*)*)", re.MULTILINE)
_PLACEHOLDERS = {
    "AMONG": "IN",
    "FROM_DATABASE": "FROM DATABASE",
    "PARAMETER": "$name",
    "QUESTION": "?",
    "COLUMNS": "column type",
    "CONSTRAINT": "constraint",
    "CONDITION": "condition",
    "CTES": "name AS ( query )",
    "EXPRESSION": "expression",
    "NAME": "name",
    "NUMBER": "n",
    "QUERY": "query",
    "SOURCES": "sources",
    "STATEMENT": "statement",
    "STRING": "'text'",
    "MINUS": "",
    "computed": "expression",
    "interval": "INTERVAL 'length'",
    "length": "INTERVAL 'length'",
    "number": "n",
}
"""The text for each terminal that the lexer recognizes and each rule that is a single value."""


@dataclass(frozen=True, slots=True)
class _Word:
    """A keyword or symbol."""

    text: str


@dataclass(frozen=True, slots=True)
class _Use:
    """A reference to a rule or terminal by name."""

    name: str


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: tuple["_Part", ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    options: tuple["_Part", ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    """A part that is optional, repeatable, or both."""

    part: "_Part"
    mark: str
    """The grammar's operator: ?, * or +."""


_Part = _Word | _Use | _Sequence | _Choice | _Repeat


@dataclass(frozen=True, slots=True)
class Grammar:
    """The rules of a grammar by name."""

    rules: Mapping[str, _Part]

    def statements(self) -> list[str]:
        """Return the rules that define whole statements.

        >>> grammar("snapshots").statements()
        ['create', 'refresh']
        """
        return list(self._flat(self.rules["start"]))

    def _flat(self, part: _Part) -> Iterator[str]:
        match part:
            case _Choice(options):
                for option in options:
                    yield from self._flat(option)
            # Lark inlines rules whose names start with an underscore, so they are not statements themselves.
            case _Use(name) if name.startswith("_"):
                yield from self._flat(self.rules[name])
            case _Use(name):
                yield name

    def words(self, rule: str) -> list[str]:
        """Return the keywords that begin a statement, and their synonyms.

        >>> grammar("versions").words("diff_graph"), grammar("versions").words("begin")
        (['DIFF GRAPH'], ['BEGIN', 'START TRANSACTION'])
        """
        part = self.rules[rule]
        return [words for option in _options(part) for words in _leading(_parts(option))]

    def synopsis(self, rules: Sequence[str], width: int = 80) -> str:
        """Return the syntax of statements in lines of at most `width` characters, followed by the definitions they use.

        `[ ]` encloses an optional part, `{ }` encloses a choice, and `...` follows a repeatable part.

        >>> print(grammar("snapshots").synopsis(["refresh"]))
        REFRESH SNAPSHOT name [ FULL ] [ DRY RUN ]
        """
        lines = [line for rule in rules for line in _wrapped(self._shown(self.rules[rule]), width, "")]
        for name in self._defined(rules):
            part = self.rules[name]
            options = part.options if isinstance(part, _Choice) and self._is_long(part) else ()
            lines += ["", f"where {name.lstrip('_')} is{' one of' if options else ''}:"]
            for text in map(self._option, options) if options else [self._shown(part)]:
                lines += _wrapped(text, width, "    ")
        return "\n".join(lines)

    def _is_long(self, part: _Part) -> bool:
        return len(self._shown(part)) > _LONG

    def _option(self, option: _Part) -> str:
        """Return an option of a long choice on a separate line. If it is a rule, the rule is expanded."""
        return self._shown(self.rules[option.name] if isinstance(option, _Use) and self._is_rule(option) else option)

    def _is_rule(self, use: _Use) -> bool:
        return use.name in self.rules and use.name not in self.statements() and use.name not in _PLACEHOLDERS

    def _defined(self, rules: Sequence[str]) -> list[str]:
        """Return the rules that are too long to expand in the statements that refer to them, in order of first use."""
        found: dict[str, None] = {}
        # Breadth-first search, so that definitions are in order of first use.
        waiting = [self.rules[rule] for rule in rules]
        while waiting:
            part = waiting.pop(0)
            for use in _uses(part):
                if not self._is_rule(use) or use.name in found:
                    continue
                if not self._stands_in_place(use.name):
                    found[use.name] = None
                waiting.append(self.rules[use.name])
        # The options of a long choice are expanded in its definition.
        written = {
            option.name
            for name in found
            if isinstance(part := self.rules[name], _Choice) and self._is_long(part)
            for option in part.options
            if isinstance(option, _Use)
        }
        return [name for name in found if name not in written]

    def _stands_in_place(self, name: str) -> bool:
        return not self._is_recursive(name) and len(self._shown(self.rules[name])) <= _SHORT

    def _is_recursive(self, name: str) -> bool:
        """Return whether a rule refers to itself, directly or through other rules."""
        seen, waiting = set[str](), [name]
        while waiting:
            for use in _uses(self.rules[waiting.pop()]):
                if use.name == name:
                    return True
                if use.name in self.rules and use.name not in seen:
                    seen.add(use.name)
                    waiting.append(use.name)
        return False

    def _shown(self, part: _Part, *, inner: bool = False) -> str:
        """Return a part as text. A choice inside another part is in braces."""
        match part:
            case _Word(text):
                # Brackets of the language are quoted, because plain brackets enclose optional parts.
                return f"'{text}'" if text in "[]" else text
            case _Use(name):
                return self._use(name, inner=inner)
            case _Sequence(parts):
                return _joined(self._pieces(parts))
            case _Choice(options):
                text = " | ".join(self._shown(option) for option in options)
                return f"{{ {text} }}" if inner else text
            case _Repeat(repeated, mark):
                if mark == "+":
                    return f"{self._shown(repeated, inner=True)} ..."
                text = self._shown(repeated)
                return text and (f"[ {text} ]" if mark == "?" else f"[ {text} ] ...")

    def _use(self, name: str, *, inner: bool) -> str:
        if name in _PLACEHOLDERS and (name.islower() or name not in self.rules or name == "MINUS"):
            return _PLACEHOLDERS[name]
        definition = self.rules[name]
        if name in self.statements():
            return f"{self.words(name)[0]} ..."
        if name.isupper() or self._stands_in_place(name):
            return self._shown(definition, inner=inner)
        return name.lstrip("_")

    def _pieces(self, parts: Sequence[_Part]) -> Iterator[str]:
        before: _Part | None = None
        for part in parts:
            match part:
                # A list such as `column ("," column)*` is printed as `column [, ...]`, as in the PostgreSQL manual.
                case _Repeat(_Sequence((_Word(","), listed)), "*") if listed == before:
                    yield "[, ...]"
                case _:
                    yield self._shown(part, inner=True)
            before = part


_LONG = 76
"""The minimum length of a choice that is printed with one option per line."""


def _uses(part: _Part) -> Iterator[_Use]:
    match part:
        case _Use():
            yield part
        case _Sequence(parts) | _Choice(parts):
            for each in parts:
                yield from _uses(each)
        case _Repeat(repeated, _):
            yield from _uses(repeated)


def _parts(part: _Part) -> tuple[_Part, ...]:
    return part.parts if isinstance(part, _Sequence) else (part,)


def _options(part: _Part) -> tuple[_Part, ...]:
    return part.options if isinstance(part, _Choice) else (part,)


def _leading(parts: Sequence[_Part]) -> list[str]:
    """Return the required keywords that begin a sequence. A choice of keywords yields one text per keyword."""
    leading = [""]
    for part in parts:
        if isinstance(part, _Repeat):
            continue
        words = [option.text for option in _options(part) if isinstance(option, _Word) and option.text.isalpha()]
        if not words:
            break
        leading = [f"{before} {word}".strip() for before in leading for word in words]
    return leading


def _joined(pieces: Iterable[str]) -> str:
    """Join pieces with spaces, but not directly inside parentheses or around dots.

    >>> _joined(["AT", "(", "TAG", "=>", "'text'", ")"]), _joined(["name", ".", "name"])
    ("AT (TAG => 'text')", 'name.name')
    """
    text = " ".join(piece for piece in pieces if piece).replace("( ", "(").replace(" )", ")")
    return re.sub(r"(?<=\w) \.(?=\w)", ".", re.sub(r"(?<!\.)\. (?=\w)", ".", text))


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    """Break a text into lines, preferably before a bracketed part rather than inside it.

    >>> _wrapped("SHOW things [ OF name ] [ LIKE 'text' ]", 36, "")
    ['SHOW things [ OF name ]', "    [ LIKE 'text' ]"]
    """
    after = indent + "    "
    lines = [indent]
    pieces = list(_outer(text))
    while pieces:
        piece = pieces.pop(0)
        line = f"{lines[-1]} {piece}" if lines[-1].strip() else lines[-1] + piece
        if len(line) <= width:
            lines[-1] = line
        elif " " in piece and len(after + piece) > width:  # break inside the brackets, piece by piece
            opened, *_, closed = piece.split()
            lines += [after] if opened == "[" and lines[-1].strip() else []
            pieces[:0] = [opened, *_outer(piece[len(opened) : -len(closed)]), closed]
        else:
            lines.append(after + piece)
    return lines


def _outer(text: str) -> Iterator[str]:
    """Yield the words of a text. A bracketed part is a single word."""
    depth, held = 0, []
    for word in text.split():
        depth += sum((c in "[({") - (c in "])}") for c in word) if not word.startswith("'") else 0
        held.append(word)
        if depth == 0:
            yield " ".join(held)
            held = []


@cache
def grammar(name: str) -> Grammar:
    """Return the grammar of a family of statements."""
    text = files("snapdb_grammar").joinpath(f"{name}.lark").read_text(encoding="utf-8")
    return Grammar({rule: _read(body) for rule, body in _RULE.findall(text)})


def _read(body: str) -> _Part:
    """Parse the right side of a rule."""
    tokens = [(m[1], m[2], m[3]) for m in _TOKEN.finditer(body) if m.group().strip()]
    part, rest = _choice(tokens)
    assert not rest, body
    return part


_Tokens = Sequence[tuple[str | None, str | None, str | None]]
"""Each token is the text of a string, the name of a rule or terminal, or a symbol. The other two entries are None."""


def _choice(tokens: _Tokens) -> tuple[_Part, _Tokens]:
    options: list[_Part] = []
    while True:
        option, tokens = _sequence(tokens)
        options.append(option)
        if not tokens or tokens[0][2] != "|":
            break
        tokens = tokens[1:]
    return (options[0] if len(options) == 1 else _Choice(tuple(options))), tokens


def _sequence(tokens: _Tokens) -> tuple[_Part, _Tokens]:
    parts: list[_Part] = []
    while tokens and tokens[0][2] not in ("|", ")"):
        part: _Part
        word, name, _ = tokens[0]
        if name is not None:
            part, tokens = _Use(name), tokens[1:]
        elif word is not None:
            part, tokens = _Word(word), tokens[1:]
        else:
            part, tokens = _choice(tokens[1:])
            tokens = tokens[1:]
        if tokens and tokens[0][2] in ("?", "*", "+"):
            part, tokens = _Repeat(part, str(tokens[0][2])), tokens[1:]
        parts.append(part)
    return (parts[0] if len(parts) == 1 else _Sequence(tuple(parts))), tokens

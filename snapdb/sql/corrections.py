"""Corrections for common mistakes: snapdb's equivalent of unsupported SQL, DuckDB or PyG syntax."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from snapdb.sql.lexer import CLOSERS, OPENERS, Token

_SEED = frozenset({"SEED", "RANDOM_SEED", "RANDOM_STATE", "RNG_SEED"})
_BATCH = frozenset({"BATCH_SIZE", "BATCHSIZE"})
_NEIGHBORS = frozenset({"FANOUTS", "NEIGHBORS", "NEIGHBOURS", "NUM_NEIGHBORS"})
_THREADS = frozenset({"NUM_WORKERS", "THREADS", "WORKERS"})
_DIRECTIONS = frozenset({"BOTH", "IN", "OUT"})
_SNAPSHOT_CLAUSES = frozenset({"AT", "ELEMENTS", "WHERE", "WITH"})
_SHOWN = 160
"""The maximum length of a correction in a message."""


class Mistake(NamedTuple):
    """A token that the grammar does not accept."""

    tokens: Sequence[Token]
    """All tokens of the statement."""
    at: int
    """The index of the token, or the number of tokens at the end of the statement."""
    accepted: frozenset[str]
    """What the grammar accepts instead: keywords, symbols, and terminals such as NAME, NUMBER, STRING and QUERY."""

    def word(self, offset: int = 0) -> str:
        """Return the keyword, name or symbol at the given offset from the token, or '' outside the statement."""
        place = self.at + offset
        return self.tokens[place].word or self.tokens[place].text if 0 <= place < len(self.tokens) else ""

    def text(self, offset: int = 0) -> str:
        """Return the text at the given offset from the token, as written."""
        place = self.at + offset
        return self.tokens[place].text if 0 <= place < len(self.tokens) else ""

    def rest(self, stops: frozenset[str] = frozenset()) -> str:
        """Return the text from the token to the next top-level keyword in `stops`, closing bracket, or end."""
        return _joined(self.tokens[self.at : _stop(self.tokens, self.at, stops)])

    def only(self, *words: str) -> bool:
        """Return whether the grammar accepts exactly these words."""
        return self.accepted == frozenset(words)


def correct(mistake: Mistake) -> str:
    """Return a suggestion to append to an error message, or '' if there is none."""
    way = next((way for rule in _RULES if (way := rule(mistake))), "")
    return f"; write {way[:_SHOWN]}{'…' * (len(way) > _SHOWN)}" if way else ""


def _stop(tokens: Sequence[Token], start: int, stops: frozenset[str]) -> int:
    depth = 0
    for index in range(start, len(tokens)):
        token = tokens[index]
        depth += (token.text in OPENERS) - (token.text in CLOSERS)
        # A negative depth means that the bracket around the clause was closed.
        if depth < 0 or (depth == 0 and index > start and token.word in stops):
            return index
    return len(tokens)


def _joined(tokens: Sequence[Token]) -> str:
    """Return the tokens as text, with one space wherever white space separated them."""
    parts = [
        " " * (index > 0 and token.span.start > tokens[index - 1].span.stop) + token.text
        for index, token in enumerate(tokens)
    ]
    return "".join(parts)


def _event_time(mistake: Mistake) -> str:
    """Correct AS OF and similar clauses of CREATE SNAPSHOT."""
    starts = mistake.word() in {"BETWEEN", "FROM", "WINDOW"} or (mistake.word(), mistake.word(1)) == ("AS", "OF")
    if {"ELEMENTS", "FOR"} <= mistake.accepted and starts:
        return f"FOR EVENT_TIME {mistake.rest(_SNAPSHOT_CLAUSES)}"
    if mistake.only("EVENT_TIME") and starts:
        return f"FOR EVENT_TIME {mistake.rest(_SNAPSHOT_CLAUSES)}"
    if mistake.only("EVENT_TIME"):
        return "FOR EVENT_TIME for times of events, or AT (TIMESTAMP => …) for a version of the tables"
    return ""


def _of(mistake: Mistake) -> str:
    listed = mistake.tokens[0].word == "SHOW" and "OF" in mistake.accepted
    if (listed or mistake.only("OF")) and mistake.word() in {"AS", "FROM", "IN", "ON"} and mistake.text(1):
        return f"OF {mistake.text(1)}"
    return ""


def _at(mistake: Mistake) -> str:
    """Correct AT without parentheses or without a version kind."""
    kind = mistake.word() if mistake.word() in {"TAG", "TIMESTAMP", "VERSION"} else ""
    value = mistake.rest(_SNAPSHOT_CLAUSES - {"AT"})
    if mistake.only("(") and mistake.word(-1) == "AT":
        return _bound(kind, value.partition(" ")[2].lstrip("= ") if kind else value)
    if mistake.only("TAG", "TIMESTAMP", "VERSION") and mistake.word(-2) == "AT":
        return _bound("", value)
    if mistake.only("=>") and mistake.word(-1) in {"TAG", "TIMESTAMP", "VERSION"}:
        return _bound(mistake.word(-1), value.lstrip("= "))
    if "AT" in mistake.accepted and mistake.word() == "ON" and mistake.text(1):
        return _bound("", mistake.text(1))
    return ""


def _bound(kind: str, value: str) -> str:
    kind = kind or ("TAG" if value.startswith("'") else "VERSION")
    return f"AT ({kind} => {value or '…'})"


def _sample(mistake: Mistake) -> str:
    """Correct SAMPLE clauses that have different names in other systems."""
    if not {"EPOCHS", "REPEATABLE"} <= mistake.accepted:
        return ""
    if not mistake.text() and "FANOUT" in mistake.accepted and mistake.word(-2) == "FROM":
        clauses = "SEEDS (SELECT …) AS vertex_type FANOUT (edge_type => [10, 5])"
        return f"{clauses}, or SAMPLE USING {mistake.text(-1)} for a sampler"
    return _renamed_clause(mistake) or _foreign_clause(mistake)


_WALK_NUMBERS = {
    "WALK_LENGTH": "LENGTH",
    "STEPS": "LENGTH",
    "WALKS_PER_NODE": "PER SEED",
    "NUM_WALKS": "PER SEED",
    "P": "RETURN",
    "Q": "INOUT",
    "RESTART_PROB": "RESTART",
    "CONTEXT_SIZE": "WINDOW",
    "NUM_NEGATIVE_SAMPLES": "NEGATIVES",
}
"""The clauses of WALK that correspond to arguments of PyG and DGL."""
_ONLY_SAMPLES = frozenset({"EXCLUDE", "KEEP", "LAYOUT", "METHOD", "REFRESH", "REUSE", "WITHOUT"})
_ONLY_WALKS = frozenset({"ALONG", "INOUT", "LENGTH", "PER", "RESTART", "RETURN", "TIME", "WINDOW"})


def _walk(mistake: Mistake) -> str:
    """Correct WALK clauses that have different names in other systems, and clauses of the wrong statement."""
    word, number = mistake.word(), next((t for i in (1, 2, 3) if (t := mistake.text(i))[:1].isdigit()), "")
    if {"FANOUT", "EPOCHS"} <= mistake.accepted and word in _ONLY_WALKS:
        return f"WALK FROM … for {word}, which is a clause of random walks"
    if mistake.only("(") and (mistake.word(-1), word) == ("SEEDS", "EDGES"):
        return "SEEDS (SELECT …) AS vertex_type, because walks start at vertices"
    if mistake.only("SEED") and word == "POSITIVE":
        return "only NEGATIVES and the number, which is per pair of WINDOW"
    if mistake.only("(", "NUMBA", "TORCH") and word == "REPLACEMENT" and "WALK" in {t.word for t in mistake.tokens}:
        return "the statement without it, because every step of a walk is a new draw"
    if not {"LENGTH", "EPOCHS"} <= mistake.accepted:
        return ""
    if not mistake.text() and mistake.word(-2) == "FROM":
        return f"SEEDS (SELECT …) AS vertex_type LENGTH 80, or WALK USING {mistake.text(-1)} for a sampler"
    if word in _WALK_NUMBERS:
        return f"{_WALK_NUMBERS[word]} {number or 5}"
    if word == "METAPATH":
        return "ALONG (edge_type OUT, edge_type IN)"
    if word == "FANOUT":
        return "LENGTH 80 for random walks, or SAMPLE FROM … FANOUT for neighbourhoods"
    if word in _ONLY_SAMPLES:
        return f"SAMPLE FROM … for {word}, which is a clause of neighbourhoods, or leave it out"
    return _renamed_clause(mistake) or _foreign_clause(mistake)


def _renamed_clause(mistake: Mistake) -> str:
    """Return the clause that corresponds to a PyG or PyTorch argument."""
    word, following = mistake.word(), [mistake.text(offset) for offset in range(1, 4)]
    number = next((text for text in following if text.isdecimal()), "")
    if word in _SEED:
        return f"REPEATABLE ({number or 42})"
    if word in _BATCH:
        return f"BATCH {number or 64}"
    if word in _NEIGHBORS:
        return "FANOUT (edge_type => [10, 5])"
    if word in _THREADS:
        return f"db.stream(…, threads={number or 4}) in Python, or --threads {number or 4} on the command line"
    return ""


def _foreign_clause(mistake: Mistake) -> str:
    """Return the alternative to a clause that only queries or other samplers have."""
    word, number = mistake.word(), mistake.text(1)
    match word:
        case "LIMIT":
            limit = f"LIMIT {number or 100}"
            return f"SEEDS (SELECT … {limit}) to limit the seeds, or read only the first batches of a stream"
        case "WHERE":
            return "SEEDS (SELECT … WHERE …) to choose seeds"
        case "ORDER":
            return "SEEDS (SELECT … ORDER BY …) and IN ORDER"
        case "DIRECTION":
            return "the direction in FANOUT (edge_type BOTH => [10, 5])"
        case "DEVICE":
            return "ON 'cuda'"
        case "REPLACE" | "REPLACEMENT":
            return "WITH REPLACEMENT"
        case "TRUE" | "FALSE" if mistake.word(-1) == "SHUFFLE":
            return "SHUFFLE" if word == "TRUE" else "FIXED"
        case "AT" | "FOR":
            return "CREATE SNAPSHOT for that time, and sample the snapshot"
    return ""


def _sample_from(mistake: Mistake) -> str:
    if mistake.only("FROM", "USING") and mistake.text():
        verb = "WALK" if mistake.word(-1) == "WALK" else "SAMPLE"
        return f"{verb} FROM {mistake.text()} for a snapshot, {verb} USING {mistake.text()} for a sampler"
    return ""


def _value(mistake: Mistake) -> str:
    """Correct an = or SIZE before a number."""
    if "NUMBER" in mistake.accepted and mistake.word() in {"=", "SIZE"}:
        number = next((mistake.text(offset) for offset in (1, 2) if mistake.text(offset).isdecimal()), "")
        return f"{mistake.word(-1)} {number}" if number else ""
    return ""


def _seeds(mistake: Mistake) -> str:
    """Correct SEEDS without parentheses or without a vertex type."""
    before, tokens = mistake.at - 1, mistake.tokens
    if mistake.only("(", "EDGES") and mistake.word(-1) == "SEEDS" and mistake.word() != "SELECT":
        return f"SEEDS (SELECT … FROM {mistake.text()}) AS {mistake.text()}"
    if mistake.only("(", "EDGES") and mistake.word(-1) == "SEEDS":
        return "SEEDS (SELECT …) AS vertex_type"
    if "QUERY" in mistake.accepted and mistake.word(-2) == "SEEDS":
        return "SEEDS (VALUES (1), (2)) AS vertex_type"
    opener = _opener(tokens, before)
    if mistake.only("AS") and opener > 0 and tokens[opener - 1].word == "SEEDS":
        sources = (i for i in range(opener, before - 1) if tokens[i].word == "FROM")
        source = next((tokens[i + 1] for i in sources if tokens[i + 1].text not in OPENERS), None)
        named = tokens[mistake.at].kind == "word" and mistake.word(1) != "(" if mistake.text() else False
        # Suggest the table after FROM as the vertex type, because vertex types are named after their tables by default.
        vertex = mistake.text() if named else source.text if source is not None else "vertex_type"
        return f"{_joined(tokens[opener - 1 : mistake.at])} AS {vertex}"
    return ""


def _opener(tokens: Sequence[Token], closer: int) -> int:
    """Return the index of the opening bracket that matches a closing bracket, or -1 if there is none."""
    depth = 0
    for index in range(min(closer, len(tokens) - 1), -1, -1):
        depth += (tokens[index].text in CLOSERS) - (tokens[index].text in OPENERS)
        if depth == 0:
            return index if index < closer else -1
    return -1


def _fanout(mistake: Mistake) -> str:
    """Correct FANOUT with counts outside brackets or without an edge type."""
    tokens, word = mistake.tokens, mistake.word()
    if mistake.word(-1) == "FANOUT":
        return f"FANOUT (DEFAULT => [{_counts(mistake) or '10, 5'}])"
    opened = next((i for i in range(mistake.at - 1, 0, -1) if tokens[i - 1].word == "FANOUT"), 0)
    if not opened or _stop(tokens, opened + 1, frozenset()) < mistake.at:
        return ""
    start = next(i for i in range(mistake.at, 0, -1) if tokens[i - 1].text in {"(", ","} and i - 1 >= opened)
    head = _joined([token for token in tokens[start : mistake.at] if token.text != "=>"]).strip()
    if mistake.only("[") or ("=>" in mistake.accepted and word in {"=", ":", "["}):
        return f"{head} => [{_counts(mistake) or '10, 5'}]"
    if "DEFAULT" in mistake.accepted and (word == "[" or tokens[mistake.at].kind == "number"):
        return f"DEFAULT => [{_counts(mistake)}]"
    if "FULL" in mistake.accepted and word in {"ALL", "INF", "MAX", "*"}:
        return "FULL"
    if mistake.word(-1) == "]" and word in _DIRECTIONS:
        edge, _, counts = _joined(tokens[start : mistake.at]).partition("=>")
        return f"{edge.strip()} {word} => {counts.strip()}"
    return ""


def _counts(mistake: Mistake) -> str:
    """Return the numbers from the token to the closing bracket."""
    numbers = []
    for token in mistake.tokens[mistake.at :]:
        if token.kind == "number" or token.word == "FULL":
            numbers.append(token.text)
        elif token.text in CLOSERS or (numbers and token.text != ","):
            break
    return ", ".join(numbers)


def _parentheses(mistake: Mistake) -> str:
    """Correct a name or number where a list in parentheses is required."""
    wants = "(" in mistake.accepted and mistake.accepted.isdisjoint({"NAME", "AS", "QUERY"})
    plain = mistake.at < len(mistake.tokens) and mistake.tokens[mistake.at].kind in {"word", "number", "quoted"}
    if mistake.only("(") and wants and plain and mistake.word(-1) not in {"AT", "TABLES", "WITH"}:
        return f"{mistake.word(-1)} ({mistake.text()})"
    return ""


def _quotes(mistake: Mistake) -> str:
    """Correct a device or path without quotes."""
    if not mistake.only("STRING") or mistake.tokens[-1] is mistake.tokens[mistake.at - 1]:
        return ""
    if mistake.word(-1) == "ON":
        return f"ON '{'cuda' if mistake.word() == 'GPU' else mistake.text()}'"
    if mistake.word(-1) in {"FROM", "TO"} and mistake.tokens[mistake.at].kind == "word":
        return f"{mistake.word(-1)} '{mistake.rest(frozenset({'WITH'})).partition(' ')[0]}'"
    return ""


def _written(mistake: Mistake) -> str:
    """Correct INSERT, UPDATE and DELETE with a missing word."""
    text = mistake.text()
    match mistake.tokens[0].word, mistake.word():
        case ("INSERT", word) if mistake.only("INTO", "OR") and word:
            return f"INSERT INTO {text}"
        case ("DELETE", "*") if mistake.only("FROM"):
            return f"DELETE {mistake.text(1)} {mistake.text(2)}"
        case ("DELETE", word) if mistake.only("FROM") and word:
            return f"DELETE FROM {text}"
        case ("UPDATE", "=") if "SET" in mistake.accepted:
            return f"UPDATE {mistake.text(-2)} SET {mistake.text(-1)} = {mistake.text(1)}"
    return ""


def _maintained(mistake: Mistake) -> str:
    """Correct common syntax mistakes in EXPIRE, BACKUP, DIFF and COPY."""
    text = mistake.text()
    match mistake.tokens[0].word, mistake.word():
        case ("EXPIRE", "SNAPSHOT"):
            return f"DROP SNAPSHOT {mistake.text(1)}, or EXPIRE SNAPSHOTS OF graph RETAIN LAST 10"
        case ("BACKUP", word) if word and mistake.tokens[-1].kind == "string":
            return f"BACKUP DATABASE TO {mistake.tokens[-1].text}"
        case ("DIFF", word) if "TABLE" in mistake.accepted and word:
            return f"DIFF TABLE {text} FROM VERSION 1 TO VERSION 2"
        case ("DIFF", _) if mistake.only("FROM"):
            return f"DIFF TABLE {mistake.text(-1)} FROM VERSION 1 TO VERSION 2"
        case ("COPY", "CSV") if mistake.word(-1) == "WITH":
            return "WITH (FORMAT csv, HEADER)"
    return ""


def _created(mistake: Mistake) -> str:
    """Correct CREATE with a missing word or with another system's syntax."""
    text = mistake.text()
    match mistake.tokens[0].word, mistake.word():
        case ("CREATE", "SAMPLE") if mistake.only("AS"):
            return f"CREATE SAMPLER {mistake.text(-1)} AS SAMPLE …"
        case ("CREATE", "LIKE") if "AS" in mistake.accepted:
            return f"CREATE TABLE {mistake.text(-1)} AS SELECT * FROM {mistake.text(1)} LIMIT 0"
        case ("CREATE", "EVERY") if mistake.only("SCHEDULE"):
            return f"SCHEDULE {mistake.rest(frozenset({'AS', 'WHEN', 'WITH'}))}"
        case ("CREATE", "AS") if mistake.only("SCHEDULE"):
            return "SCHEDULE EVERY INTERVAL '1 day' or SCHEDULE 'USING CRON 0 3 * * * UTC' before AS"
        case ("CREATE", _) if mistake.only("SAMPLER") and text:
            return f"ON SAMPLER {text}"
    return ""


def _graph(mistake: Mistake) -> str:
    """Correct property graph elements in other systems' syntax."""
    if not {"NODE", "VERTEX"}.isdisjoint(mistake.accepted) and mistake.word() in {"(", "NODES", "VERTICES"}:
        return "VERTEX TABLES (…) EDGE TABLES (…) without other parentheses"
    match mistake.word():
        case "PRIMARY" if "KEY" in mistake.accepted:
            return "KEY (column)"
        case "TIME" | "TIMESTAMP" if "EVENT" in mistake.accepted:
            return f"EVENT TIME ({mistake.text(1).strip('(') or mistake.text(2)})"
        case "FROM" if "SOURCE" in mistake.accepted and mistake.word(2) == "TO":
            ends = ((end, mistake.text(at)) for end, at in (("SOURCE", 1), ("DESTINATION", 3)))
            return " ".join(f"{end} KEY (column) REFERENCES {vertex}" for end, vertex in ends)
        case "(" if mistake.word(-1) == "LABEL":
            return f"TARGET ({mistake.text(1)}) for labels to learn, LABEL name for the name of an element type"
    return ""


def _pattern(mistake: Mistake) -> str:
    """Correct Cypher's notation in a pattern of GRAPH_TABLE."""
    if not mistake.accepted & {"MATCH", "COLUMNS", "COST"} or "GRAPH_TABLE" in mistake.accepted:
        return ""
    if mistake.word() == "{" and "COST" in mistake.accepted:
        return f"a condition, as in (a:label WHERE a.{mistake.text(1)} = {mistake.text(3)})"
    if mistake.word() == "*" and "COST" in mistake.accepted:
        return "the quantifier after the edge: -[e:label]->{1,3}"
    if mistake.word() == "RETURN":
        return "COLUMNS (a.column, …)"
    return ""


_RULES: tuple[Callable[[Mistake], str], ...] = (
    *(_event_time, _of, _at, _walk, _sample, _sample_from, _value, _seeds, _fanout, _quotes, _written, _maintained),
    *(_created, _graph, _pattern),
    _parentheses,
)
"""The rules in the order in which they are tried. `_parentheses` is last because it is the least specific."""

"""EXPLAIN of any other statement."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import ParseError
from snapdb.sql.syntax import Place, Read, Statement, Tree, first_tree, has, leaves, span_of, trees


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """EXPLAIN [ANALYZE] [(FORMAT text | json)] of any other statement."""

    statement: Statement
    analyze: bool
    json: bool

    def to_sql(self) -> str:
        options = " (FORMAT json)" if self.json else ""
        return f"EXPLAIN{' ANALYZE' * self.analyze}{options} {self.statement.to_sql()}"


def build_explain(tree: Tree, place: Place, read: Read) -> Explain:
    """EXPLAIN; ParseError where one of its settings is given twice."""
    explained = first_tree(tree, "explained")
    said: set[str] = set()
    for leaf in [] if explained is None else [leaf for setting in trees(explained) for leaf in leaves(setting)]:
        if leaf.type in said or said | {leaf.type} >= {"TEXT", "JSON"}:
            raise ParseError(
                f"{leaf.upper()} is given twice, or beside another FORMAT; keep one",
                span=span_of(leaf),
                code="duplicate-clause",
            )
        said.add(leaf.type)
    return Explain(*place, read(leaves(tree)[0]), has(tree, "analyze") or "ANALYZE" in said, "JSON" in said)

"""A read, run by DuckDB over the views of what it names."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.execute.operator import Engine, Rows
from snapdb.plan.plan import QueryPlan


@dataclass(frozen=True, slots=True)
class Query:
    """Streams the rows of a SELECT."""

    plan: QueryPlan

    def run(self, engine: Engine) -> Rows:
        query = self.plan.query
        with engine.context.session(query) as session:
            yield from session.exact_reader(query.text, query.parameters)
        return None

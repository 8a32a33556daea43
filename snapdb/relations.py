"""Relations: queries that run when their rows are read, and of which other queries are composed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import fspath
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from snapdb.attribute_docs import document_attributes
from snapdb.errors import InputError, SnapdbError, brief_traceback
from snapdb.execute.results import Result
from snapdb.plan.queries import Parameters
from snapdb.plan.variables import caller_variables, variables_in
from snapdb.sql import parse_one
from snapdb.sql.queries import Query
from snapdb.sql_engine import quote, text_literal


class _Runs(Protocol):
    """A database, as a relation uses it."""

    @property
    def variables(self) -> bool: ...

    def execute(self, sql: str, params: Parameters = None) -> Result: ...


class _Text(NamedTuple):
    """A query with everything that it refers to."""

    sql: str
    params: Parameters
    variables: Mapping[str, object]


@document_attributes
class Relation:
    """A query of a database, which runs whenever its rows are read, at the newest version.

    `Database.sql` returns one. The methods return new relations, so a query can be composed step by step. A relation in
    a variable can be named in another query, like a data frame.

    Examples:
        >>> import snapdb
        >>> db = snapdb.connect()
        >>> numbers = db.sql("SELECT range AS n, range % 2 AS odd FROM range(6)")
        >>> numbers.filter("n > 1").aggregate("odd, sum(n) AS total").order("odd").fetchall()
        [(0, 6), (1, 8)]
        >>> db.sql("SELECT max(n) FROM numbers").fetchone()
        (5,)
        >>> numbers.limit(2).show()
        ┌────────┬────────┐
        │      n │    odd │
        │ bigint │ bigint │
        ├────────┼────────┤
        │      0 │      0 │
        │      1 │      1 │
        └────────┴────────┘
        2 rows
        >>> db.close()
    """

    alias: str
    """The name by which conditions of `join` can qualify the columns."""

    def __init__(self, db: _Runs, text: _Text, alias: str = "relation") -> None:
        self.alias = alias
        self._db = db
        self._text = text
        self._reading: Result | None = None
        self._shape: Result | None = None

    @property
    def sql_query(self) -> str:
        """The SQL text of the query."""
        return self._text.sql

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._described().columns

    @property
    def types(self) -> list[str]:
        """The SQL types of the columns, such as 'BIGINT'."""
        return self._described().types

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return len(self), len(self.columns)

    def __len__(self) -> int:
        ((count,),) = self.aggregate("count(*)").fetchall()
        return int(count)

    def execute(self) -> Result:
        """Run the query. Returns its rows."""
        return self._run(self._text)

    def df(self) -> Any:
        """Return the rows as a pandas DataFrame. See `Result.df`."""
        return self.execute().df()

    def pl(self) -> Any:
        """Return the rows as a polars DataFrame. See `Result.pl`."""
        return self.execute().pl()

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self.execute().arrow()

    def fetchnumpy(self) -> dict[str, Any]:
        """Return the rows as one numpy array per column. See `Result.fetchnumpy`."""
        return self.execute().fetchnumpy()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that `fetchone` and `fetchmany` have not returned yet. The next call runs the query again."""
        rows, self._reading = self._read().fetchall(), None
        return rows

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Return up to `size` more rows. The list is empty after the last row."""
        return self._read().fetchmany(size)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last row."""
        return self._read().fetchone()

    def show(self, *, max_rows: int | None = 40, max_width: int | None = None) -> None:
        """Print the rows. See `Result.show`."""
        self.execute().show(max_rows=max_rows, max_width=max_width)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as an Arrow C stream, for polars, DuckDB, pyarrow and other libraries."""
        return self.execute().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return repr(self.execute())

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks display."""
        return self.execute()._repr_html_()

    @brief_traceback
    def set_alias(self, alias: str) -> Relation:
        """Return the same query under another name for `join`."""
        return Relation(self._db, self._text, alias)

    @brief_traceback
    def filter(self, condition: str) -> Relation:
        """Return the rows that satisfy an SQL condition, such as `"price > 10"`."""
        return self._composed(f"SELECT * FROM {self._source} WHERE {condition}")

    @brief_traceback
    def select(self, *expressions: str) -> Relation:
        """Return the values of SQL expressions, such as `select("id", "price * 2 AS twice")`."""
        return self._composed(f"SELECT {', '.join(expressions)} FROM {self._source}")

    project = select

    @brief_traceback
    def order(self, *expressions: str) -> Relation:
        """Return the rows in the order of SQL expressions, such as `order("price DESC", "id")`."""
        return self._composed(f"SELECT * FROM {self._source} ORDER BY {', '.join(expressions)}")

    sort = order

    @brief_traceback
    def limit(self, count: int, offset: int = 0) -> Relation:
        """Return up to `count` rows after the first `offset`."""
        return self._composed(f"SELECT * FROM {self._source} LIMIT {int(count)} OFFSET {int(offset)}")

    @brief_traceback
    def distinct(self) -> Relation:
        """Return each row once."""
        return self._composed(f"SELECT DISTINCT * FROM {self._source}")

    @brief_traceback
    def aggregate(self, expressions: str, group: str = "ALL") -> Relation:
        """Return aggregates per group, such as `aggregate("state, count(*) AS n")`.

        Args:
            expressions: The SQL expressions.
            group: The expressions by which rows are grouped. Defaults to all expressions without an aggregate.
        """
        return self._composed(f"SELECT {expressions} FROM {self._source} GROUP BY {group}")

    @brief_traceback
    def join(self, other: Relation, condition: str, how: str = "inner") -> Relation:
        """Return the join with another relation.

        Args:
            other: The other relation, of the same database.
            condition: Column names that both have, such as `"id"` or `"id, day"`, or an SQL condition in which the
                names of `set_alias` qualify the columns.
            how: 'inner', 'left', 'right', 'outer', 'semi' or 'anti'.
        """
        plain = all(name.strip().isidentifier() for name in condition.split(","))
        match = f"USING ({condition})" if plain else f"ON {condition}"
        kind = {"outer": "FULL OUTER"}.get(how.lower(), how.upper())
        right = other if other.alias != self.alias else other.set_alias(f"{other.alias} 2")
        return self._composed(f"SELECT * FROM {self._source} {kind} JOIN {right._source} {match}", other)

    @brief_traceback
    def union(self, other: Relation) -> Relation:
        """Return the rows of both relations, duplicates included."""
        return self._composed(f"FROM {self._source} UNION ALL FROM {other._source}", other)

    @brief_traceback
    def intersect(self, other: Relation) -> Relation:
        """Return the rows that both relations have."""
        return self._composed(f"FROM {self._source} INTERSECT FROM {other._source}", other)

    @brief_traceback
    def except_(self, other: Relation) -> Relation:
        """Return the rows that the other relation does not have."""
        return self._composed(f"FROM {self._source} EXCEPT FROM {other._source}", other)

    @brief_traceback
    def query(self, name: str, sql: str) -> Relation:
        """Return an SQL query in which this relation has the given name."""
        return self._composed(f"WITH {quote(name)} AS ({self._text.sql}\n) {sql}")

    @brief_traceback
    def create(self, table: str) -> Result:
        """Create a table with the rows, as CREATE TABLE … AS does."""
        return self._run(self._text._replace(sql=f"CREATE TABLE {quote(table)} AS {self._text.sql}"))

    to_table = create

    @brief_traceback
    def insert_into(self, table: str) -> Result:
        """Insert the rows into a table."""
        return self._run(self._text._replace(sql=f"INSERT INTO {quote(table)} {self._text.sql}"))

    @brief_traceback
    def write_parquet(self, path: str | Path) -> Result:
        """Write the rows to a Parquet file, as COPY … TO does."""
        return self._copied(path, "parquet")

    to_parquet = write_parquet

    @brief_traceback
    def write_csv(self, path: str | Path) -> Result:
        """Write the rows to a CSV file with a header, as COPY … TO does."""
        return self._copied(path, "csv")

    to_csv = write_csv

    @property
    def _source(self) -> str:
        """The query as an item of FROM."""
        return f"({self._text.sql}\n) AS {quote(self.alias)}"

    def _composed(self, sql: str, other: Relation | None = None) -> Relation:
        """Return a relation for a query that contains this one, and first this one if there are two."""
        texts = [self._text] if other is None else [self._text, other._text]
        for text in texts:
            if not isinstance(parse_one(text.sql), Query):
                first = text.sql.split(maxsplit=1)[0].upper()
                raise InputError(
                    f"{first} is not a query that others can contain; call execute(), df() or arrow()",
                    code="not-composable",
                )
        variables = {name: value for text in texts for name, value in text.variables.items()}
        return Relation(self._db, _Text(sql, _together([text.params for text in texts]), variables))

    def _copied(self, path: str | Path, file_format: str) -> Result:
        target = text_literal(fspath(path))
        return self._run(self._text._replace(sql=f"COPY ({self._text.sql}\n) TO {target} (FORMAT {file_format})"))

    def _described(self) -> Result:
        if self._shape is None:
            within = isinstance(parse_one(self._text.sql), Query)
            self._shape = self.limit(0).execute() if within else self.execute()
        return self._shape

    def _read(self) -> Result:
        if self._reading is None:
            self._reading = self.execute()
        return self._reading

    def _run(self, text: _Text) -> Result:
        with caller_variables(text.variables.get):
            return self._db.execute(text.sql, text.params)


def checked_relation(db: _Runs, sql: str, params: Parameters = None) -> Relation:
    """Return the relation of a query, with the variables of the caller that it names.

    Raises:
        SnapdbError: The query does not fit the database.
    """
    composed = Relation(db, _Text(sql.strip().rstrip(";"), params, variables_in(sql) if db.variables else {}))
    try:
        composed.columns  # noqa: B018  # describes the query
    except SnapdbError:
        composed.execute().close()  # the error of the query itself shows the user's text
        raise
    return composed


def _together(params: Sequence[Parameters]) -> Parameters:
    """Return the parameters of two queries whose texts follow each other."""
    given: list[Any] = [each for each in params if each]
    if len(given) < 2:
        return given[0] if given else None
    if all(isinstance(each, Mapping) for each in given):
        return {name: value for each in given for name, value in each.items()}
    if any(isinstance(each, Mapping) for each in given):
        raise InputError(
            "one relation has parameters by name, and the other by position; write both alike", code="not-composable"
        )
    return [value for each in given for value in each]

"""Codes of QueryError, and of what DuckDB refuses in a query."""

from __future__ import annotations

from snapdb.error_codes.code import Code

_BIND, _QUERY = "BindError", "QueryError"

QUERIES = (
    Code(
        "argument-types",
        _BIND,
        "A function or an operator does not take arguments of these types.",
        "Cast them to types that the message names.",
        "SELECT age + DATE '2026-01-01' + name FROM person",
    ),
    Code(
        "not-grouped",
        _BIND,
        "A column stands beside aggregates, and is not grouped by.",
        "Add it to GROUP BY, or aggregate it.",
        "SELECT name, count(*) FROM person",
    ),
    Code(
        "misplaced-aggregate",
        _BIND,
        "An aggregate or a function over a window stands where there is none.",
        "Use HAVING, OVER (…) or a subquery.",
        "SELECT name FROM person WHERE max(age) > 3",
    ),
    Code(
        "table-function",
        _BIND,
        "A function that gives a table stands where a value is needed.",
        "Write it in FROM.",
        "SELECT read_csv('people.csv')",
    ),
    Code(
        "order-place",
        _BIND,
        "ORDER BY counts a column that there is not.",
        "Write its name.",
        "SELECT name FROM person ORDER BY 2",
    ),
    Code(
        "parameter-missing",
        _BIND,
        "A statement has a parameter that no value was given for.",
        "Give it to `execute`, or with --param on the command line.",
        "SELECT $age",
    ),
    Code(
        "parameter-in-at",
        _BIND,
        "A ? stands in AT (…), which is read before the query.",
        "Write the value, or use $name.",
        "SELECT * FROM person AT (VERSION => ?)",
    ),
    Code("query", _QUERY, "DuckDB fails to run the query, and says why.", "Read the message.", "SELECT error('boom')"),
    Code(
        "not-in-arrow",
        _QUERY,
        "Results are handed over in Arrow, which cannot carry a column of this one, e.g. lists in lists 70 deep.",
        "Select what is inside, or cast the column to VARCHAR.",
        f"SELECT {'[' * 70}1{']' * 70}",
    ),
    Code(
        "not-in-python",
        _QUERY,
        "DuckDB makes no Python value of a column, e.g. of a map whose keys are BIGNUM.",
        "Cast the column to VARCHAR, or read the result with `arrow()`.",
        unshown="It is about a call from Python.",
    ),
    Code(
        "not-in-a-frame",
        _QUERY,
        "A data frame has no values like those of a column, e.g. dates after the year 9999.",
        "Cast the column to VARCHAR, or read the result with `arrow()` or `fetchall()`.",
        unshown="It is about a call from Python.",
    ),
    Code(
        "bad-value",
        _QUERY,
        "A text is not a value of the type that it is read as.",
        "Correct it, or write TRY_CAST.",
        "SELECT 'many'::INTEGER",
    ),
    Code("value-range", _QUERY, "A number is beyond its type.", "Take a wider type.", "SELECT 300::TINYINT"),
    Code(
        "several-rows",
        _QUERY,
        "A subquery that stands for one value gives several rows.",
        "Aggregate it, or write LIMIT 1.",
        "SELECT (SELECT id FROM person)",
    ),
    Code(
        "out-of-memory", _QUERY, "The memory is not enough.", "Take less at once.", unshown="It would take all memory."
    ),
    Code(
        "interrupted",
        _QUERY,
        "The statement was stopped from outside, as Ctrl-C does.",
        "Run it again.",
        unshown="Nobody stops an example.",
    ),
    Code(
        "task-failed",
        _QUERY,
        "A run of a task that EXECUTE TASK began did not end well.",
        "Read what it says, and the log of the run in snapdb.task_runs.",
        "CREATE TASK nightly SCHEDULE EVERY INTERVAL '1 day' AS SELECT * FROM nowhere; EXECUTE TASK nightly",
    ),
    Code(
        "condition-value",
        _QUERY,
        "WHEN of a task gives no truth value.",
        "Compare with something, as in changed('shop') > 0.",
        unshown="The daemon tells it, in the record of the run.",
    ),
    Code(
        "consumed",
        _QUERY,
        "A result is read a second time.",
        "Call `.arrow()` first, and keep what it gives.",
        unshown="It is about a call from Python.",
    ),
    Code("transaction-open", _QUERY, "BEGIN in an open transaction.", "COMMIT or ROLLBACK it first.", "BEGIN; BEGIN"),
    Code(
        "no-transaction",
        _QUERY,
        "COMMIT or ROLLBACK, and no transaction is open.",
        "Leave it out, or BEGIN one.",
        "COMMIT",
    ),
    Code(
        "aborted",
        _QUERY,
        "An error ended the transaction, and nothing of it is kept.",
        "Say ROLLBACK, and begin again.",
        unshown="It is what the statement after an error is told.",
    ),
    Code(
        "open-transaction",
        _QUERY,
        "A script ends inside a transaction, which is rolled back.",
        "Add COMMIT.",
        unshown="It is about the end of a script.",
    ),
)

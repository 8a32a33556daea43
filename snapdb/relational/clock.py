"""One time for all statements of a transaction, as in DuckDB and PostgreSQL."""

from __future__ import annotations

from datetime import datetime


def clock_macros(moment: datetime) -> tuple[str, ...]:
    """What gives every function of the clock a moment's value, in the name space where it is run.

    A session has a DuckDB transaction of its own, whose clock begins with it; macros come before DuckDB's functions.

    Args:
        moment: In UTC.
    """
    day, time = f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S.%f}"
    values = {
        f"TIMESTAMPTZ '{day} {time}+00'": ("now", "get_current_timestamp", "transaction_timestamp"),
        f"TIMESTAMP '{day} {time}'": ("current_localtimestamp",),
        f"DATE '{day}'": ("current_date", "today"),
        f"TIMETZ '{time}+00'": ("get_current_time",),
        f"TIME '{time}'": ("current_localtime",),
    }
    return tuple(f'CREATE MACRO "{name}"() AS {value}' for value, names in values.items() for name in names)

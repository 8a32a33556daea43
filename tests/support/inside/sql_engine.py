"""The door to what `snapdb.sql_engine` is made of."""

from tests.support.inside.names import names_of

__getattr__ = names_of("snapdb.sql_engine")

"""The door to what `snapdb_cli` is made of."""

from tests.support.inside.names import names_of

__getattr__ = names_of("snapdb_cli")

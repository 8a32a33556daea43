"""Access to the internals of `snapdb_cli`."""

from tests.support.inside.names import names_of

__getattr__ = names_of("snapdb_cli")

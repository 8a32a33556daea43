"""Access to the internals of `snapdb.remote`."""

from tests.support.inside.names import names_of

__getattr__ = names_of("snapdb.remote")

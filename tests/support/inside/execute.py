"""Access to the internals of `snapdb.execute`."""

from tests.support.inside.names import names_of

__getattr__ = names_of("snapdb.execute")

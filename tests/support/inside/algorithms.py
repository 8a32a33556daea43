"""Access to the internals of `snapdb.algorithms`."""

from tests.support.inside.names import names_of

__getattr__ = names_of("snapdb.algorithms")

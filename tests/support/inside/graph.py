"""The door to what `snapdb.graph` is made of."""

from tests.support.inside.names import names_of

__getattr__ = names_of("snapdb.graph")

"""The door to what `snapdb.builders` is made of."""

from tests.support.inside.names import names_of

__getattr__ = names_of("snapdb.builders")

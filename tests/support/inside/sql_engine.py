"""The door to what `snapdb.relational` is made of."""

from tests.support.inside.names import names_of

__getattr__ = names_of("snapdb.relational")

"""Turns a statement into a plan: binds names, checks types, and chooses how to execute the statement.

The plan families and the rules are imported when a statement first needs them (PEP 562).
"""

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use
from snapdb.plan.plan import Plan
from snapdb.plan.planner import bind, optimize
from snapdb.plan.scope import BindContext

if TYPE_CHECKING:
    from snapdb.plan.rules import RULES

__all__ = ["RULES", "BindContext", "Plan", "bind", "optimize"]

__getattr__ = on_first_use(__name__, {"RULES": ".rules"})

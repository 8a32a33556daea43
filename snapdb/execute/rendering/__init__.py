"""Renders results: Arrow values as text, and tables as text or HTML. Tables report the parts that they omit."""

from snapdb.execute.rendering.pages import page
from snapdb.execute.rendering.plans import PLAN, is_plan
from snapdb.execute.rendering.tables import render
from snapdb.execute.rendering.values import JSON, PLAIN, SECONDS, Spelling, printable, spell, type_name

__all__ = [
    "JSON",
    "PLAIN",
    "PLAN",
    "SECONDS",
    "Spelling",
    "is_plan",
    "page",
    "printable",
    "render",
    "spell",
    "type_name",
]

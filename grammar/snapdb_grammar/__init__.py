"""The grammars of snapdb's own statements, one .lark file per family; README.md lists every rule with an example."""

from pathlib import Path

__all__ = ["grammar_text"]


def grammar_text(family: str) -> str:
    """The text of a family's grammar."""
    return Path(__file__).with_name(f"{family}.lark").read_text(encoding="utf-8")

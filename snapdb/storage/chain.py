"""Facts in a chain of hashes: changing one afterwards breaks every link from there on."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def facts_text(facts: dict[str, Any]) -> str:
    """Facts as the text that is stored and hashed.

    >>> facts_text({"version": 1, "message": None})
    '{"version":1,"message":null}'
    """
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=False)


def link(parent: str, text: str) -> str:
    """The hash of a link: of the one before and of its own text.

    >>> link("", "{}")[:8]
    'a062dd49'
    """
    return hashlib.sha256(f"{parent}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()

"""The drawn batch of drawings.md, by the product: its first SQL block, and `db.draw`."""

from __future__ import annotations

import re
from pathlib import Path

import snapdb

_PAGE = Path(__file__).parent.parent / "drawings.md"


def draw() -> str:
    """The first batch of the page's sampler."""
    block = re.search(
        r"^```sql\n(.*?)^```$", _PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert block is not None
    with snapdb.connect() as db:
        db.script(block[1])
        return f"{db.draw('train').svg()}\n"

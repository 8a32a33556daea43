"""Writes the pictures of the documentation: `python docs/pictures [FOLDER]`, by default into this folder."""

from __future__ import annotations

import sys
from pathlib import Path

import batch
import idea
import layouts
import pool
import sample
import snapshots

PICTURES = {
    "idea.svg": idea.draw,
    "snapshots.svg": snapshots.draw,
    "layouts.svg": layouts.draw,
    "pool.svg": pool.draw,
    "batch.svg": batch.draw,
    "sample.svg": sample.draw,
}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(), encoding="utf-8")

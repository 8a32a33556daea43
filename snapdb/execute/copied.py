"""Parquet files of the user taken over as segments of a table."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.execute.operator import Engine
from snapdb.storage.changes import File
from snapdb.storage.copies import copy_segment


def copied(engine: Engine, folder: str, name: str, sources: Sequence[str]) -> tuple[File, ...]:
    """Copies of the files, hashed on the way, or none after an error or Ctrl-C.

    Args:
        folder: Where, relative to the database directory.
        name: The table's, to tell what is being done.
    """
    made: list[File] = []
    with engine.relational.session() as session:
        try:
            for number, source in enumerate(sources):

                def report(share: float, number: int = number) -> None:
                    engine.check_stopped()
                    engine.report(f"copying into {name}", (number + share) / len(sources))

                engine.relational.check_folder(source)
                made.append(copy_segment(engine.home, session, folder, source, report))
        except BaseException:
            for file in made:
                engine.home.disk.remove(engine.home.path / file.path)
            raise
    return tuple(made)

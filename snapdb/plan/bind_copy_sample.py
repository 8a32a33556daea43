"""COPY (SAMPLE …) TO: which batches go into which folder, and as what files."""

from __future__ import annotations

from dataclasses import replace

from snapdb.errors import BindError, ParseError
from snapdb.plan.bind_sample import bind_sample
from snapdb.plan.export_options import Chosen, chosen_format, export_options, overwrites
from snapdb.plan.exports import BatchFormat, CopySamplePlan
from snapdb.plan.scope import Context
from snapdb.sql.ast import CopySampleTo
from snapdb.types import by_word

_STATEMENT = "COPY (SAMPLE …) TO"
_FORMATS: dict[str, BatchFormat] = by_word(BatchFormat)
_OPTIONS: dict[str, type] = {"format": str, "epochs": int, "overwrite": bool}


def bind_copy_sample(statement: CopySampleTo, context: Context) -> CopySamplePlan:
    """The sampler whose batches are written, and how."""
    options = export_options(_STATEMENT, statement, _OPTIONS)
    sample = bind_sample(statement.sample, context)
    if (said := options.get("epochs")) is not None:
        _check_epochs(statement, said)
        sample = replace(sample, epochs=said.value)
    return CopySamplePlan(
        replace(sample, delivers="batches"),
        statement.path,
        statement.path_span,
        _FORMATS[chosen_format(_STATEMENT, options, _FORMATS)],
        overwrite=overwrites(options),
    )


def _check_epochs(statement: CopySampleTo, said: Chosen) -> None:
    """Refuse what is no number of epochs, and a second one beside that of the SAMPLE itself."""
    if said.value < 1:
        raise BindError(f"EPOCHS needs at least 1, found {said.value}", span=said.span, code="out-of-range")
    if statement.sample.clauses.epochs is not None:
        raise ParseError(
            "EPOCHS is given in SAMPLE and as an option; keep one", span=said.span, code="duplicate-clause"
        )

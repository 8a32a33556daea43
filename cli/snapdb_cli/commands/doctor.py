"""`snapdb doctor`: reports the information for a bug report, and remedies for problems."""

from dataclasses import astuple
from pathlib import Path

import pyarrow as pa

from snapdb.diagnosis import Finding, diagnose
from snapdb_cli.diagnostics import Diagnostics, ExitCode
from snapdb_cli.output import Output, OutputStyle

_COLUMNS = pa.schema([(name, pa.string()) for name in ("section", "item", "value", "status", "advice")])


def run(path: Path | None, output_format: str, diagnostics: Diagnostics) -> ExitCode:
    """Show the report. Returns FAILED if a finding is a problem. In table format, the advice is written to stderr."""
    findings = list(diagnose(path))
    is_table = output_format == "table"
    rows = [dict(zip(_COLUMNS.names, astuple(finding), strict=True)) for finding in findings]
    batch = pa.RecordBatch.from_pylist(rows, schema=_COLUMNS)
    if is_table:
        batch = batch.select(["section", "item", "value", "status"])
    Output(output_format, style=OutputStyle(screen_rows=None)).write(batch.schema, [batch])
    for finding in findings if is_table else ():
        _advise(finding, diagnostics)
    return ExitCode.FAILED if any(finding.status == "problem" for finding in findings) else ExitCode.OK


def _advise(finding: Finding, diagnostics: Diagnostics) -> None:
    if finding.advice is not None:
        diagnostics.say(f"{finding.status}: {finding.item}: {finding.advice}")

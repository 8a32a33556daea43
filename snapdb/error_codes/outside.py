"""Codes of InputError: a file, a device or a value from outside; and of calls from Python."""

from __future__ import annotations

from snapdb.error_codes.code import Code

__all__ = ["OUTSIDE"]

_KIND = "InputError"
_PYTHON = "It is about a call from Python."

OUTSIDE = (
    Code(
        "error",
        "SnapdbError",
        "Something went wrong.",
        "Read the message.",
        unshown="Every error has a code of its own.",
    ),
    Code(
        "input",
        _KIND,
        "A file or a value cannot be read; DuckDB says why.",
        "Read the message.",
        unshown="It depends on the file.",
    ),
    Code(
        "no-file",
        _KIND,
        "No file has this path.",
        "Look at the path, which counts from the folder that the program runs in.",
        "SELECT * FROM 'people.parquet'",
    ),
    Code(
        "unreadable-file",
        _KIND,
        "A file is cut short, damaged, or not what its name says.",
        "Look at what it holds.",
        unshown="It is about a file.",
    ),
    Code(
        "unwritable-file",
        _KIND,
        "COPY … TO cannot write its file.",
        "Look at the folder, its permissions and the free space.",
        "COPY person TO 'nowhere/people.csv'",
    ),
    Code(
        "consumed-source",
        _KIND,
        "A stream that was registered is read a second time.",
        "Register it again.",
        unshown=_PYTHON,
    ),
    Code(
        "not-a-table",
        _KIND,
        "`register` was given something that is no table.",
        "Give Arrow, pandas, a tensor, an array or a mapping of columns.",
        unshown=_PYTHON,
    ),
    Code(
        "device",
        _KIND,
        "A device is not there, or cannot do what was asked of it.",
        "Leave ON out, or name another.",
        unshown="It depends on the machine.",
    ),
    Code(
        "memory",
        _KIND,
        "A batch does not fit into the memory, or into what was allowed.",
        "Allow more, or make batches smaller.",
        unshown="It depends on the machine.",
    ),
    Code(
        "stream-state",
        _KIND,
        "`load_state_dict` was given the state of another stream, or none.",
        "Open the stream as it was opened then.",
        unshown=_PYTHON,
    ),
    Code(
        "not-for-pyg",
        _KIND,
        "A batch of LAYOUT BLOCKS is asked for as PyG's data.",
        "Sample with LAYOUT NODES, or take `to_blocks()`.",
        unshown=_PYTHON,
    ),
    Code(
        "nothing-to-learn",
        _KIND,
        "A stream has no batch, or none with a label.",
        "Look at SEEDS and at TARGET.",
        unshown=_PYTHON,
    ),
    Code(
        "targets-missing",
        _KIND,
        "Batches have no y to learn from.",
        "Give TARGET in the graph, or y in SEEDS.",
        unshown=_PYTHON,
    ),
    Code(
        "metric-values",
        _KIND,
        "Targets or predictions are not what a metric takes.",
        "Recode those rows.",
        unshown=_PYTHON,
    ),
    Code(
        "several-vertex-types",
        _KIND,
        "A model takes one vertex type, and the batch has several.",
        "Write a model that names its types.",
        unshown=_PYTHON,
    ),
    Code(
        "model-inputs",
        _KIND,
        "A model is given something that it does not take.",
        "Give the graph a feature x, or say how to normalise.",
        unshown=_PYTHON,
    ),
    Code("stream-closed", "SnapdbError", "A stream is read after it was closed.", "Open another one.", unshown=_PYTHON),
    Code(
        "package-missing",
        _KIND,
        "A package that is not always needed is not installed.",
        "Install it as the message says.",
        unshown="It depends on the machine.",
    ),
    Code(
        "notebook-line",
        _KIND,
        "What stands after %snap or %%snap is not understood.",
        "%snap --help tells how to say it.",
        unshown="It is about a notebook.",
    ),
    Code(
        "output-format",
        _KIND,
        "A format cannot hold the result, or not at that place.",
        "Take another --format, or send it to a file.",
        unshown="It is about the command line.",
    ),
    Code(
        "benchmark",
        _KIND,
        "`snapdb bench` is not there, or failed.",
        "Run it in a checkout of the source.",
        unshown="It is about the command line.",
    ),
)

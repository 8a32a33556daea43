"""What people see at the prompt and in an editor: `help()`, `dir()`, and the types that checkers report."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType

import pytest
from torch import nn

import snapdb
import snapdb.errors
import snapdb.lightning
import snapdb.lineage
import snapdb.notebook
import snapdb.pyg
import snapdb.train
from snapdb.loading.adapters import FlowBlock
from snapdb.loading.source import Sharing, StreamOptions

PACKAGES = (snapdb, snapdb.pyg, snapdb.train, snapdb.lightning)
RETURNED = (FlowBlock, Sharing, StreamOptions)
"""Classes that are public because public methods return them."""


def public_classes() -> Iterator[type]:
    """Every class that a public name leads to, once."""
    exported = (getattr(package, name) for package in PACKAGES for name in dir(package))
    classes = [one for one in exported if inspect.isclass(one) and one.__module__.startswith("snapdb")]
    yield from dict.fromkeys([*classes, *RETURNED])


def attributes(cls: type) -> set[str]:
    """The public attributes of instances that neither a property nor a method documents."""
    found = {field.name for field in fields(cls)} if is_dataclass(cls) else set()
    if "__init__" in vars(cls) and not is_dataclass(cls) and not issubclass(cls, nn.Module):
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls.__init__)))):
            match node:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    found.add(name)
    documented = {name for name, one in vars(cls).items() if callable(one) or isinstance(one, property)}
    return {name for name in found if not name.startswith("_")} - documented


@pytest.mark.parametrize("cls", list(public_classes()), ids=lambda cls: cls.__name__)
def test_help_lists_every_attribute_with_its_meaning(cls: type) -> None:
    section = pydoc.getdoc(cls).partition("\nAttributes:\n")[2]
    entries = re.findall(r"^    (\w+) \([^:]+\):\s+\S", section, re.MULTILINE)
    assert attributes(cls) - set(entries) == set()


def test_help_shows_a_field_with_its_shape_and_dtype() -> None:
    page = pydoc.plain(pydoc.render_doc(snapdb.Batch))
    assert "input_id (Tensor): [batch_size] int64" in page


MODULES = (*PACKAGES, snapdb.errors, snapdb.lineage, snapdb.notebook)
"""The modules that people import from."""


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_dir_lists_public_names_only(module: ModuleType) -> None:
    listed = dir(module)
    assert [name for name in listed if name.startswith("_") and name != "__version__"] == []
    assert {type(getattr(module, name)) for name in listed} & {ModuleType} == set()
    owners = {getattr(getattr(module, name), "__module__", "snapdb") for name in listed}
    assert [owner for owner in owners if not owner.startswith("snapdb")] == []
    assert set(getattr(module, "__all__", listed)) == set(listed)


def test_dir_lists_the_names_that_a_module_defines() -> None:
    assert {"SnapdbError", "BindError", "Span"} <= set(dir(snapdb.errors))
    assert {"replay"} <= set(dir(snapdb.lineage))
    assert dir(snapdb.lightning) == ["SnapDataModule", "StageLoader"]

"""Class docstrings that list attributes, so that `help()` shows the same text as editors and the API reference."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)
_WIDTH = 88
"""The line width of the Attributes section, in columns."""


def document_attributes(cls: _Class) -> _Class:
    """Append a Google-style Attributes section to a class's docstring, and return the class.

    Python discards the string below an attribute, so the section is built from the source code. This is done when
    `__doc__` is first read, so that imports remain fast. Classes with a metaclass receive the section immediately,
    because pydoc reads their dictionary. Without source code or under `python -OO`, the docstring is unchanged.

    >>> from snapdb.loading.source import Share
    >>> print(Share.__doc__)  # doctest: +ELLIPSIS
    A rank's share of the rest of an epoch.
    <BLANKLINE>
    Attributes:
        places (range): The batch numbers. Numbers from `batches` on refer to the epoch's
            first batches again.
        batches (int): The number of batches of the epoch, over all ranks.
        ...
    """
    docs = _AttributeDocs(cls.__doc__)
    if type(cls) is type:
        cls.__doc__ = docs  # type: ignore[assignment]  # a descriptor, which type.__doc__ honours
    else:
        cls.__doc__ = docs.__get__(None, cls)
    return cls


class _AttributeDocs:
    """The `__doc__` of a class, computed on first access."""

    def __init__(self, text: str | None) -> None:
        self._text = text
        self._whole: str | None = None

    def __get__(self, _: object, owner: type) -> str | None:
        if self._text is not None and self._whole is None:
            self._whole = _with_section(self._text, owner)
        return self._whole


def _with_section(text: str, cls: type) -> str:
    """Return the docstring, followed by an Attributes section if the class has public attributes."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):  # in a zip file without sources, in a frozen program, or at a prompt
        return text
    (definition,) = tree.body
    assert isinstance(definition, ast.ClassDef)
    entries = [_entry(name, *about) for name, about in _attributes(definition).items()]
    return "\n".join([inspect.cleandoc(text), "", "Attributes:", *entries]) if entries else text


def _attributes(definition: ast.ClassDef) -> Mapping[str, tuple[str, str]]:
    """Map each annotated public name in the class body to its type and docstring."""
    return {
        node.target.id: (ast.unparse(node.annotation), doc)
        for node, doc in _with_docstrings(definition.body)
        if isinstance(node, ast.AnnAssign)
        if isinstance(node.target, ast.Name) and not node.target.id.startswith("_")
    }


def _with_docstrings(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement with the string literal below it, or with an empty string."""
    for node, below in zip(body, [*body[1:], None], strict=True):
        match below:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield node, inspect.cleandoc(text)
            case _:
                yield node, ""


def _entry(name: str, type_: str, doc: str) -> str:
    """Format one attribute as a wrapped Google-style entry."""
    paragraphs = doc.split("\n\n") if doc else [""]
    head = f"{name} ({type_}): {paragraphs[0]}" if doc else f"{name} ({type_})"
    lines = textwrap.wrap(head, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)
    for paragraph in paragraphs[1:]:
        lines += ["", *textwrap.wrap(paragraph, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)]
    return "\n".join(lines)

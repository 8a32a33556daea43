"""Additions to the site: the README as its first page, pages from other folders, and snapdb's highlighting of SQL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "grammar/README.md": "grammar.md",
    "benchmarks/RESULTS.md": "results.md",
    "benchmarks/SNAPSHOTS.md": "results-snapshots.md",
    "benchmarks/STORAGE.md": "results-storage.md",
    "benchmarks/LANGUAGE.md": "results-language.md",
    "benchmarks/EPOCHS.md": "results-epochs.md",
    "benchmarks/EXPORTS.md": "results-exports.md",
    "benchmarks/TASKS.md": "results-tasks.md",
    "benchmarks/REFRESH.md": "results-refresh.md",
    "benchmarks/SCHEDULE.md": "results-schedule.md",
    "benchmarks/OUT_OF_CORE.md": "results-out-of-core.md",
    "benchmarks/PUBLISHING.md": "results-publishing.md",
    "benchmarks/PAGES.md": "results-pages.md",
}
"""Which file of the project is which page of the site."""
_NOTE = re.compile(r"^( *```\w+) no-run$", re.MULTILINE)
_SQL = re.compile(r"^( *`{3,})sql$", re.MULTILINE)
_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]*`")
_BRACKETS = re.compile(
    r"^ *(`{3,}).*?^ *\1 *$|`[^`\n]*`|\] \[", re.MULTILINE | re.DOTALL
)
"""Code, or the end of a bracket before another: Markdown takes `[FULL] [DRY RUN]` for a cross-reference."""
_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)]*)?\)")


def on_config(config: Any) -> Any:
    """Leaves pages out of the navigation whose file is not there, as measurements that were not made yet."""
    absent = [page for source, page in PAGES.items() if not (ROOT / source).is_file()]
    config.nav = _without(absent, config.nav)
    return config


def _without(absent: list[str], nav: Any) -> Any:
    match nav:
        case list():
            return [_without(absent, entry) for entry in nav if entry not in absent]
        case dict():
            return {title: _without(absent, entry) for title, entry in nav.items()}
        case _:
            return nav


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages from outside docs/, with links that hold in the site."""
    for source, page in PAGES.items():
        path = ROOT / source
        if path.is_file():
            files.append(
                File.generated(
                    config,
                    page,
                    content=_relinked(path.read_text("utf-8"), path.parent, ""),
                )
            )
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lets the links of docs/ to pages from outside lead to where these are; reads Markdown as GitHub does."""
    markdown = _SQL.sub(r"\1snapdb", _NOTE.sub(r"\1", markdown))
    markdown = _ROW.sub(_unescaped, markdown)
    markdown = _BRACKETS.sub(
        lambda found: "] \\[" if found.group() == "] [" else found.group(), markdown
    )
    if page.file.generated_by:
        return markdown
    folder = Path(page.file.abs_src_path).parent
    up = "../" * (len(Path(page.file.src_uri).parts) - 1)
    return _relinked(markdown, folder, up)


def _unescaped(row: re.Match[str]) -> str:
    """A row of a table with the bars of its code as they are: GitHub wants backslashes there, which the site shows."""
    return _CODE.sub(lambda code: code.group().replace("\\|", "|"), row.group())


def _relinked(markdown: str, folder: Path, up: str) -> str:
    return _LINK.sub(lambda link: _moved(link, folder, up), markdown)


def _moved(link: re.Match[str], folder: Path, up: str) -> str:
    """The link from a page's folder in the site; only its text where the target is not part of the site."""
    text, target, anchor = link.group(1), link.group(2), link.group(3) or ""
    found = (folder / target).resolve()
    if not found.is_relative_to(ROOT) or not found.exists():
        return link.group()
    name = found.relative_to(ROOT).as_posix()
    if name in PAGES:
        return f"[{text}]({up}{PAGES[name]}{anchor})"
    if name.startswith("docs/") and found.suffix in {".md", ".svg"}:
        return f"[{text}]({up}{name.removeprefix('docs/')}{anchor})"
    return text

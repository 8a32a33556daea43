"""The web application: routes to pages and panels, statements, and what scripts poll."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from snapdb.database import Database
from snapdb.errors import CommitConflict, SnapdbError
from snapdb_ui.cells import bytes_text, count_text, text_of
from snapdb_ui.guard import Access, Guard
from snapdb_ui.metrics import CONTENT_TYPE, down_text, metrics_text
from snapdb_ui.pages import graphs, overview, samplers, snapshots, statements, tables, tasks
from snapdb_ui.pages.page import Ask, Page, Panel, address, name_in
from snapdb_ui.reader import Reader, dicts

PAGES = (*overview.PAGES, *tables.PAGES, *graphs.PAGES, *snapshots.PAGES, *samplers.PAGES, *tasks.PAGES)
SECTIONS = {
    "overview": "",
    "tables": "tables",
    "versions": "versions",
    "graphs": "graphs",
    "snapshots": "snapshots",
    "samplers": "samplers",
    "tasks": "tasks",
    "caches": "caches",
    "SQL": "sql",
}
"""The entries of the navigation and their addresses."""
_STATIC = Path(__file__).parent / "static"
_NEWEST = "SELECT max(version) AS version FROM snapdb.versions"


class Pages:
    """Answers the requests for pages."""

    def __init__(self, reader: Reader, access: Access) -> None:
        self._reader, self._access = reader, access
        self._templates = Environment(
            loader=PackageLoader("snapdb_ui"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._templates.globals.update(
            base=access.base,
            database=reader.shown,
            name=reader.shown.rstrip("/").rpartition("/")[2],
            sections=SECTIONS,
            address=address,
            text_of=text_of,
            bytes_text=bytes_text,
            count_text=count_text,
        )

    def routes(self) -> list[Route]:
        """Return the routes below the path of this start."""
        return [
            *(Route(page.path, self._page(page), name=page.title) for page in PAGES),
            Route("/sql", self.sql, methods=["GET", "POST"]),
            Route("/sql/download", self.download, methods=["POST"]),
            Route("/names", self.names),
            Route("/version", self.version),
            Route("/metrics", self.metrics),
        ]

    def _page(self, page: Page) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            names = {name: name_in(str(value)) for name, value in request.path_params.items()}
            ask = Ask(names, dict(request.query_params))
            wanted = ask.options.get("panel")
            if wanted is None and "whole" not in ask.options:
                values = {**self._frame(page, ask), "panels": page.panels, "query": _query(ask)}
                return self._html("page.html", values)
            panels = [panel for panel in page.panels if (panel.name == wanted if wanted else not panel.on_click)]
            if not panels:
                return PlainTextResponse("the page has no such panel\n", 404)
            parts = await self._panels(request, panels, ask)
            if "hx-request" in request.headers:
                return self._html("panel.html", parts[0], _status(parts))
            return self._whole(page, ask, parts)

        return answer

    async def _panels(self, request: Request, panels: Sequence[Panel], ask: Ask) -> list[Mapping[str, Any]]:
        """Return the values of panels at one moment, or their errors."""

        def load(db: Database) -> list[Mapping[str, Any]]:
            return [_loaded(panel, db, ask) for panel in panels]

        try:
            return await self._reader.run(request.is_disconnected, load)
        except SnapdbError as error:
            return [{"panel": panel, "failure": statements.failure(error), "values": {}} for panel in panels]

    def _whole(self, page: Page, ask: Ask, parts: Sequence[Mapping[str, Any]]) -> Response:
        """Return a page with all of its panels, for browsers without scripts."""
        values = {**self._frame(page, ask), "parts": parts, "buttons": _buttons(page, parts)}
        return self._html("whole.html", values, _status(parts))

    def _frame(self, page: Page, ask: Ask) -> Mapping[str, Any]:
        return {"title": page.title.format_map(ask.names), "section": page.section, "ask": ask}

    def _html(self, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
        return HTMLResponse(self._templates.get_template(template).render(values), status)

    async def sql(self, request: Request) -> Response:
        """Show the editor, or run a statement."""
        values: dict[str, Any] = {"title": "SQL", "section": "SQL", "text": request.query_params.get("q", "")}
        part: Mapping[str, Any] | None = None
        if request.method == "POST":
            form = await _form(request)
            values["text"] = form.get("sql", "")
            part = await self._result(request, f"EXPLAIN {values['text']}" if "explain" in form else values["text"])
            if "hx-request" in request.headers:
                return self._html("result.html", part, 429 if _is_busy([part]) else 200)
        return self._html("sql.html", {**values, "result": part})

    async def _result(self, request: Request, text: str) -> dict[str, Any]:
        limit = self._reader.limit

        def run(db: Database) -> Mapping[str, Any]:
            return statements.result(db, statements.parsed(text, self._reader.shown), limit)

        try:
            values = await self._reader.run(request.is_disconnected, run)
        except SnapdbError as error:
            return {"failure": statements.failure(error), "values": {}}
        return {"failure": None, "values": values}

    async def download(self, request: Request) -> Response:
        """Return all rows of a statement as a file."""
        form = await _form(request)
        text, wanted = form.get("sql", ""), form.get("format", "csv")

        def run(db: Database) -> bytes:
            statement = statements.parsed(text, self._reader.shown)
            if wanted == "parquet":
                return statements.parquet_bytes(db, statement)
            return statements.csv_text(db, statement).encode()

        try:
            content = await self._reader.run(request.is_disconnected, run)
        except SnapdbError as error:
            return PlainTextResponse(f"{error}\n", 429 if error.code == "page-busy" else 400)
        ending, kind = ("parquet", "application/vnd.apache.parquet") if wanted == "parquet" else ("csv", "text/csv")
        headers = {"content-disposition": f'attachment; filename="result.{ending}"'}
        return Response(content, media_type=kind, headers=headers)

    async def names(self, request: Request) -> Response:
        """Return the names that statements can use, for completion."""

        def known(db: Database) -> list[str]:
            names = db.names()
            kinds = (
                names["tables"],
                names["views"],
                names["columns"],
                names["graphs"],
                names["snapshots"],
                names["samplers"],
            )
            return sorted({name for kind in kinds for name in kind})

        return await self._json(request, known)

    async def version(self, request: Request) -> Response:
        """Return the newest version of the database."""
        return await self._json(request, lambda db: dicts(db, _NEWEST)[0])

    async def _json(self, request: Request, block: Callable[[Database], Any]) -> Response:
        try:
            return JSONResponse(await self._reader.run(request.is_disconnected, block))
        except SnapdbError as error:
            return JSONResponse({"error": error.message, "code": error.code}, 503)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics of the database for Prometheus."""
        try:
            content = await self._reader.run(request.is_disconnected, metrics_text)
        except SnapdbError:
            content = down_text()
        return Response(content, media_type=CONTENT_TYPE)


def _loaded(panel: Panel, db: Database, ask: Ask) -> Mapping[str, Any]:
    """Return the values of a panel, or its error. An interrupt ends the whole block."""
    try:
        return {"panel": panel, "failure": None, "values": panel.load(db, ask)}
    except CommitConflict:
        raise
    except SnapdbError as error:
        if error.code == "interrupted":
            raise
        return {"panel": panel, "failure": statements.failure(error), "values": {}}


def _status(parts: Sequence[Mapping[str, Any]]) -> int:
    """Return the HTTP status of a page: 404 if it is that of an unknown object, 429 if other statements are running."""
    if _is_busy(parts):
        return 429
    codes = [part["failure"]["code"] for part in parts if part["failure"]]
    return 404 if codes and all(code.startswith("unknown-") for code in codes) else 200


def _is_busy(parts: Sequence[Mapping[str, Any]]) -> bool:
    return any(part["failure"] and part["failure"]["code"] == "page-busy" for part in parts)


def _buttons(page: Page, parts: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Return the panels that a click loads and that are not among the parts."""
    return [panel for panel in page.panels if panel.on_click and all(part["panel"] is not panel for part in parts)]


def _query(ask: Ask) -> str:
    return "&".join(f"{quote(name)}={quote(value, safe='')}" for name, value in ask.options.items())


async def _form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form."""
    body = (await request.body()).decode("utf-8", "replace")
    return {name: values[-1] for name, values in parse_qs(body, keep_blank_values=True).items()}


def application(reader: Reader, access: Access, port: int) -> Starlette:
    """Return the application that serves a database."""
    pages = Pages(reader, access)
    below = [*pages.routes(), Mount("/static", StaticFiles(directory=_STATIC), name="static")]
    return Starlette(
        routes=[Route("/metrics", pages.metrics), Mount(access.base, routes=below)],
        middleware=[Middleware(Guard, access=access, port=port)],
    )

"""Access control: accepts requests to this machine from the browser that has the token.

The pages are under a path that is chosen at each start, because browsers send the cookies of a host to all of its
ports.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "snapdb"
HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""The host names under which the server answers. Another name is a sign of DNS rebinding."""
_CYTOSCAPE = "'sha256-pgvDUBa4IjFA2yuSJ2cqcyxmNYJMborsd0ORcRv9vw8='"
"""The digest of the only style element that cytoscape adds."""
_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {_CYTOSCAPE}; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send forms with Origin: null
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Access:
    """The secrets of one start of the server."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    base: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(12)}")
    """The path under which all pages are."""
    metrics: str | None = field(default=None, repr=False)
    """The token of programs that read /metrics, which stays the same at each start."""

    once: set[str] = field(default_factory=set, repr=False)
    """Tokens that each sign in one browser."""

    def address(self, host: str, port: int, token: str | None = None) -> str:
        """Return the address to open."""
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}{self.base}/?token={token or self.token}"

    def address_once(self, host: str, port: int) -> str:
        """Return an address that works once, for a command line that others on this machine can see."""
        token = secrets.token_urlsafe(32)
        self.once.add(token)
        return self.address(host, port, token)

    def signs_in(self, token: str) -> bool:
        """Return whether a token is right, and forget it if it works once."""
        if token in self.once:
            self.once.discard(token)
            return True
        return _same(token, self.token)


class Guard:
    """Middleware that rejects requests from elsewhere, and adds the headers of every response."""

    def __init__(self, app: ASGIApp, access: Access, port: int) -> None:
        self._app, self._access = app, access
        self._hosts = {f"{host}:{port}" for host in HOSTS} | (set(HOSTS) if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        answer: Any = self._rejection(scope) or self._app
        await answer(scope, receive, headed)

    def _rejection(self, scope: Scope) -> Response | None:
        """Return the response to a request that does not reach the pages, or None."""
        headers, path, query = Headers(scope=scope), scope["path"], QueryParams(scope["query_string"])
        if headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("this address is not that of the server\n", 400)
        if path == "/metrics" and self._access.metrics is not None:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            right = scheme.lower() == "bearer" and _same(given, self._access.metrics)
            return None if right else PlainTextResponse("the token is missing or wrong\n", 401)
        if not path.startswith(f"{self._access.base}/"):
            return PlainTextResponse("open the address that snapdb ui printed\n", 404 if path != "/" else 401)
        if scope["method"] in ("GET", "HEAD") and self._access.signs_in(query.get("token", "")):
            return self._enter(path)
        if not _same(_cookie(headers), self._access.token):
            return PlainTextResponse("open the address that snapdb ui printed\n", 401)
        if scope["method"] not in ("GET", "HEAD") and not _is_own(headers):
            return PlainTextResponse("the request comes from another page\n", 403)
        return None

    def _enter(self, path: str) -> Response:
        """Return the redirect that moves the token from the address to a cookie."""
        response = RedirectResponse(path, 303)
        response.set_cookie(COOKIE, self._access.token, path=f"{self._access.base}/", httponly=True, samesite="strict")
        return response


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _cookie(headers: Headers) -> str:
    """Return our cookie. Browsers also send the cookies of other programs at this host, which may be malformed."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")


def _is_own(headers: Headers) -> bool:
    """Whether a request that is not a GET comes from one of the pages."""
    fetched = headers.get("sec-fetch-site", "same-origin")
    return headers.get("origin") == f"http://{headers.get('host')}" and fetched == "same-origin"

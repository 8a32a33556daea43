"""Sends the alerts of failed and missed runs: the leader's thread, which no run waits for.

An alert is sent at least once, always with the same id: the receiver's answer is recorded after it arrives, so after a
crash in between the next leader sends the alert again. The addresses are secrets. They are read from the environment,
and neither they nor the messages of errors that may contain them are logged or stored.
"""

import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPMessage
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

from snapdb.daemon.log import Clock, Field, Intervals, Log, iso
from snapdb.errors import CommitConflict, SnapdbError, report
from snapdb.release import __version__
from snapdb.storage.catalog_db.alert_rows import Alert, AlertRows
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.task_rows import check_leader

_SECOND = 1_000_000
_TRY = 5.0
"""The maximum number of seconds of a try."""
_LONGEST = 3600 * _SECOND
"""The longest delay between two tries, in microseconds."""
_PATIENCE = 86_400 * _SECOND
"""The time from the first try to the last one, in microseconds."""
_AT_ONCE = 100
"""The maximum number of alerts for one address that are sent before those for the next one."""

Post = Callable[[str, bytes, str], int]
"""Sends a body with an id to a URL, and returns the HTTP status."""


class Endpoint(NamedTuple):
    """Where the alerts for an address are sent."""

    url: str
    """The URL, which is a secret, or '' if there is none."""
    problem: str | None
    """The reason why no alert can be sent, or None. It does not contain the URL."""


def endpoint(address: str, environment: Mapping[str, str]) -> Endpoint:
    """Return the URL of an address from the environment, if it is https, or http to a loopback address.

    >>> endpoint("ops", {"SNAPDB_NOTIFY_OPS": "https://alerts.example/ops"}).problem
    >>> endpoint("ops", {}).problem
    'the environment variable SNAPDB_NOTIFY_OPS of the scheduler is not set'
    """
    variable = f"SNAPDB_NOTIFY_{address.upper()}"
    url = environment.get(variable, "").strip()
    if not url:
        return Endpoint("", f"the environment variable {variable} of the scheduler is not set")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port  # reading the port checks it
    except ValueError:
        return Endpoint("", f"the environment variable {variable} of the scheduler is not a valid URL")
    if not host or "@" in parts.netloc or not url.isascii() or not url.isprintable() or " " in url:
        return Endpoint("", f"the environment variable {variable} of the scheduler is not a valid URL")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        why = f"the environment variable {variable} of the scheduler must be an https URL"
        return Endpoint("", f"{why}; http is supported only for loopback addresses such as 127.0.0.1")
    return Endpoint(url, None)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is that of this machine.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost.example")
    (True, True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def retry_delay(tries: int) -> int:
    """Return the delay after this number of tries, in microseconds: exponential backoff from 2 s to an hour.

    >>> [retry_delay(tries) // 1_000_000 for tries in (1, 2, 11, 12, 500)]
    [2, 4, 2048, 3600, 3600]
    """
    return min(_SECOND << min(tries, 20), _LONGEST)


class AlertSender:
    """Sends the alerts that are due, and records the result."""

    def __init__(
        self,
        catalog_db: CatalogDb,
        holder: str,
        clock: Clock,
        log: Log,
        *,
        environment: Mapping[str, str] = os.environ,
        post: Post | None = None,
    ) -> None:
        """Create a sender for the leader with this token. It logs each reason why alerts wait only once."""
        self._catalog_db, self._holder, self._clock, self._log = catalog_db, holder, clock, log
        self._environment, self._post = environment, post or post_within
        self._reported: set[str] = set()
        self.stopped = threading.Event()
        """Set to end `step` before the next alert."""

    def step(self) -> None:
        """Send all alerts that are due.

        Raises:
            CommitConflict: Another scheduler is the leader now (code leader-lost).
            SnapdbError: The catalog cannot be read or written at the moment.
        """
        with self._catalog_db.reading() as connection:
            check_leader(connection, self._holder)
            addresses = AlertRows(connection).addresses()
        for address in addresses:
            url, problem = endpoint(address, self._environment)
            if problem is None:
                self._send_all(address, url)
            elif problem not in self._reported:
                self._reported.add(problem)
                self._log.warn("alert.waits", notify=address, why=problem)

    def _send_all(self, address: str, url: str) -> None:
        """Send the alerts for one address, until its receiver is slow or cannot be reached. Others do not wait."""
        with self._catalog_db.reading() as connection:
            alerts = AlertRows(connection).due(address, self._clock.now(), _AT_ONCE)
        began = time.monotonic()
        for alert in alerts:
            if self.stopped.is_set() or not self._send(alert, url) or time.monotonic() - began > _TRY:
                return

    def _send(self, alert: Alert, url: str) -> bool:
        """Send an alert and record the result. Return whether the receiver could be reached."""
        status = 0
        fields: dict[str, Field] = {"notify": alert.address, "id": alert.id, "tries": alert.tries + 1}
        try:
            content = json.loads(alert.content)
            fields = {"task": content["task"], "run": content["run"]} | fields
            content = {"id": alert.id, **content, "database": str(self._catalog_db.db_dir.path)}
            status = self._post(url, json.dumps(content, ensure_ascii=False).encode(), alert.id)
            problem = f"HTTP status {status}"
        except Exception as error:  # of the network, or of a damaged row; its text may contain the URL
            problem = _kind(error)
        sent, tried = 200 <= status < 300, self._clock.now()
        since = tried if alert.since is None else min(alert.since, tried)
        over = not sent and tried - since >= _PATIENCE
        due = min(tried + retry_delay(alert.tries + 1), since + _PATIENCE)
        with self._catalog_db.writing(counted=False) as connection:
            check_leader(connection, self._holder)
            AlertRows(connection).note_try(alert, "sent" if sent else "given_up" if over else "pending", tried, due)
        if sent:
            self._log.info("alert.sent", **fields, status=status)
        elif over:
            self._log.error("alert.given_up", **fields, why=problem)
        else:
            self._log.warn("alert.failed", **fields, why=problem, at=iso(due))
        return status > 0


def _kind(error: Exception) -> str:
    """Return the class of a network error. Its message is omitted, because it may contain the address."""
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        error = error.reason
    return type(error).__name__


class AlertThread:
    """Sends alerts in a separate thread for as long as this process is the leader.

    It has a separate connection to the catalog, so no receiver delays a run.
    """

    def __init__(self, db_dir: DatabaseDir, holder: str, clock: Clock, intervals: Intervals, log: Log) -> None:
        """Start the thread for the leader with this token."""
        self._clock, self._intervals, self._log = clock, intervals, log
        self._catalog_db = CatalogDb(db_dir)
        self._sender = AlertSender(self._catalog_db, holder, clock, log)
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="snapdb-alerts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sending. A try that is in progress is abandoned, and the next leader repeats it."""
        self._sender.stopped.set()
        self._thread.join(0.5)

    def _run(self) -> None:
        """Run the thread, which closes its connection at the end."""
        try:
            self._send_repeatedly()
        finally:
            self._catalog_db.close()

    def _send_repeatedly(self) -> None:
        """Send what is due at each interval."""
        while not self._clock.pause(self._sender.stopped, self._intervals.poll):
            try:
                self._sender.step()
                self._trouble = None
            except CommitConflict:
                return  # another scheduler leads, and sends the alerts from now on
            except Exception as error:
                text = report(error)
                if self._trouble != text:
                    self._trouble = text
                    code = error.code if isinstance(error, SnapdbError) else None
                    self._log.error("error", error=f"alerts cannot be sent: {text}", code=code)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as a failure, because it may lead to another host, or from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _post(url: str, body: bytes, key: str) -> int:
    """Send a JSON body, and return the HTTP status. Proxies of the environment are used, except for loopback."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key, "User-Agent": f"snapdb/{__version__}"}
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310  # `endpoint` checked the scheme
    local = is_loopback(urlsplit(url).hostname or "")
    proxies = urllib.request.ProxyHandler({} if local else None)
    try:
        with urllib.request.build_opener(proxies, _NoRedirect).open(request, timeout=_TRY) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def post_within(url: str, body: bytes, key: str, seconds: float = _TRY) -> int:
    """Send a JSON body, and return the HTTP status.

    Raises:
        TimeoutError: There was no answer in time. The timeout of a socket does not suffice, because it applies to each
            read, and not to the resolution of the name.
        OSError: The receiver cannot be reached.
    """
    answers: SimpleQueue[int | Exception] = SimpleQueue()

    def answer() -> None:
        try:
            answers.put(_post(url, body, key))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=answer, name="snapdb-alert", daemon=True).start()
    result: Any
    try:
        result = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if isinstance(result, Exception):
        raise result
    return int(result)

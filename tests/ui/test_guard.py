"""Who may read the pages: hosts, the token, other origins, headers, and the token of /metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import snapdb
from tests.support.inside.ui import HEADERS, PAGES, Access
from tests.support.places import ROOT
from tests.support.site import ORIGIN, PORT, Html, Site, site

UI = ROOT / "ui" / "snapdb_ui"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guard") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a")
    return path


@pytest.fixture
def signed_in(shop: Path) -> Iterator[Site]:
    with site(shop) as own:
        yield own


@pytest.fixture
def stranger(shop: Path) -> Iterator[Site]:
    with site(shop, signed_in=False) as own:
        yield own


def test_each_start_has_another_token_and_another_path() -> None:
    one, other = Access(), Access()
    assert one.token != other.token
    assert one.base != other.base
    assert len(one.token) >= 43  # 32 bytes
    assert one.address("127.0.0.1", 8421) == f"http://127.0.0.1:8421{one.base}/?token={one.token}"
    assert one.address("::1", 8421).startswith("http://[::1]:8421/")


def test_an_address_on_a_command_line_works_once(stranger: Site) -> None:
    query = stranger.access.address_once("127.0.0.1", PORT).partition("?")[2]
    assert stranger.access.token not in query
    assert stranger.get(f"?{query}").status_code == 303
    stranger.client.cookies.clear()
    assert stranger.get(f"?{query}").status_code == 401
    assert stranger.get(f"?token={stranger.access.token}").status_code == 303


def test_the_token_becomes_a_cookie_of_the_path_and_leaves_the_address(stranger: Site) -> None:
    response = stranger.get(f"?token={stranger.access.token}&x=1")
    assert response.status_code == 303
    assert stranger.access.token not in response.headers["location"]
    cookie = response.headers["set-cookie"]
    assert f"Path={stranger.access.base}/" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert stranger.get().status_code == 200


@pytest.mark.parametrize("path", ["", "tables", "sql", "metrics", "static/app.js", "names", "version", "?panel=tables"])
def test_without_the_token_nothing_is_shown(stranger: Site, path: str) -> None:
    for given in ("", "?token=", "?token=x", f"?token={stranger.access.token[:-1]}", "?token=é"):
        if "?" not in path:
            assert stranger.get(path + given).status_code == 401
    assert stranger.get(path).status_code == 401
    stranger.client.cookies.set("snapdb", "wrong")
    assert stranger.get(path).status_code == 401


def test_other_paths_say_nothing(signed_in: Site) -> None:
    assert signed_in.client.get("/").status_code == 401
    assert signed_in.client.get("/tables").status_code == 404
    assert signed_in.client.get(f"{signed_in.access.base}").status_code == 404
    assert signed_in.client.get("/metrics").status_code == 404


@pytest.mark.parametrize("others", ["{}; flag", "{}; y=a b", 'theme={{"a":1}}; {}', "; ;{}; =x", "x=é; {}"])
def test_cookies_of_other_programs_do_not_matter(stranger: Site, others: str) -> None:
    """Browsers send the cookies of all programs at 127.0.0.1."""
    cookie = others.format(f"snapdb={stranger.access.token}").encode()
    request = stranger.client.build_request("GET", f"{stranger.access.base}/", headers=[(b"cookie", cookie)])
    assert stranger.client.send(request).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_the_names_of_this_machine_are_accepted(signed_in: Site, host: str) -> None:
    cookie = {"cookie": f"snapdb={signed_in.access.token}"}
    assert signed_in.get(headers={"host": f"{host}:{PORT}", **cookie}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.2:8421"]
)
def test_another_host_name_is_rejected(signed_in: Site, host: str) -> None:
    """A page of another site whose name resolves to this machine sends its own name (DNS rebinding)."""
    response = signed_in.get(headers={"host": host, "cookie": f"snapdb={signed_in.access.token}"})
    assert response.status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://127.0.0.1:{PORT + 1}"},
        {"origin": f"https://127.0.0.1:{PORT}"},
        {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
        {"origin": ORIGIN, "sec-fetch-site": "same-site"},
    ],
)
def test_a_form_of_another_page_is_rejected(signed_in: Site, headers: dict[str, str]) -> None:
    address = f"{signed_in.access.base}/sql"
    assert signed_in.client.post(address, data={"sql": "SELECT 1"}, headers=headers).status_code == 403


@pytest.mark.parametrize("path", ["", "tables", "sql", "static/app.js", "nowhere", "tables/t?panel=rows"])
def test_every_response_has_the_headers(signed_in: Site, path: str) -> None:
    headers = signed_in.get(path).headers
    assert {name: headers.get(name) for name in HEADERS} == HEADERS
    assert "access-control-allow-origin" not in headers
    assert "unsafe" not in headers["content-security-policy"]


def test_rejections_have_the_headers_too(stranger: Site) -> None:
    for response in (stranger.get(), stranger.get(headers={"host": "evil"}), stranger.client.get("/elsewhere")):
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
        assert stranger.access.token not in response.text + str(response.headers)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_pages_are_only_read(signed_in: Site, method: str) -> None:
    for page in PAGES:
        if "{" not in page.path:
            address = f"{signed_in.access.base}{page.path}"
            assert signed_in.client.request(method, address, headers={"origin": ORIGIN}).status_code == 405


def test_a_program_reads_metrics_with_a_token_of_its_own(shop: Path) -> None:
    with site(shop, metrics="0123456789abcdef", signed_in=False) as own:
        for given in (None, "", "Bearer x", "Bearer ", "Basic 0123456789abcdef", f"Bearer {own.access.token}"):
            headers = {} if given is None else {"authorization": given}
            response = own.client.get("/metrics", headers=headers)
            assert (response.status_code, "snapdb_" in response.text) == (401, False)
        response = own.client.get("/metrics", headers={"authorization": "Bearer 0123456789abcdef"})
        assert response.status_code == 200
        assert 'snapdb_rows{table="t"} 1.0' in response.text
        assert own.get(headers={"authorization": "Bearer 0123456789abcdef"}).status_code == 401


def test_the_browser_reads_metrics_too(signed_in: Site) -> None:
    assert "snapdb_up 1.0" in signed_in.get("metrics").text


# The files of the pages.


def test_no_template_trusts_a_value() -> None:
    texts = {path.name: path.read_text() for path in (UI / "templates").rglob("*.html")}
    assert len(texts) > 20
    for name, text in texts.items():
        assert not re.search(r"\|\s*safe|autoescape\s+false|\son\w+=|\sstyle=|javascript:", text), name
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style", text), name
        assert not re.search(r"(?:src|href)=[\"'](?:https?:)?//", text), name
    sources = [(path, path.read_text()) for path in UI.rglob("*.py")]
    assert [path.name for path, text in sources if "Markup(" in text] == ["page.py"]


def test_htmx_may_not_evaluate_or_ask_others(signed_in: Site) -> None:
    (own,) = Html(signed_in.get().text).all("meta", name="htmx-config")
    config = json.loads(own["content"] or "")
    for name in ("allowEval", "allowScriptTags", "includeIndicatorStyles", "historyCacheSize"):
        assert not config[name]
    assert config["selfRequestsOnly"]


def test_our_script_makes_no_html_from_text() -> None:
    text = (UI / "static" / "app.js").read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setAttribute\('on", text
    )


def test_vendored_files_have_licences_and_addresses_of_no_other_host() -> None:
    folder = UI / "static" / "vendor"
    licences = {path.name for path in folder.glob("*.LICENSE")}
    assert licences == {"htmx.org.LICENSE", "uplot.LICENSE", "cytoscape.LICENSE"}
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size < 600_000

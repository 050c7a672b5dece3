"""Who gets an answer from `hypergraph ui`, and what no answer lets through: asked of a running server."""

import asyncio
import base64
import hashlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ui_serving import SECRET, Answer, Served, serving, write_story

from hypergraph import SqliteCheckpointer
from hypergraph.ui.assets import FOLDER, asset
from hypergraph.ui.server import BODY

JSON = {"Content_Type": "application/json"}
ASKED = ["/api/v1/about", "/api/v1/workflows", "/api/v1/events", "/api/v1/nothing", "/nothing"]
PATHS = ["/", "/static/index.html", *ASKED]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = tmp_path_factory.mktemp("ui") / "story.db"
    store = SqliteCheckpointer(file)
    asyncio.run(write_story(store))
    store.close()
    with serving(file) as running:
        yield running


def code(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.document["error"]["code"]


# --- the token ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ASKED)
def test_without_the_token_nothing_is_answered_but_files_of_the_page(server: Served, path: str) -> None:
    assert code(server.request(path, token=None)) == (401, "unauthorized")


def test_the_files_of_the_page_are_the_same_for_all_and_hold_nothing_of_the_database(server: Served) -> None:
    for path, name in (("/", "index.html"), ("/static/main.js", "main.js")):
        answer = server.request(path, token=None)
        assert (answer.status, answer.body) == (200, (FOLDER / name).read_bytes())


@pytest.mark.parametrize("wrong", ["x", "", "é", "x" * 5000])
def test_a_wrong_token_is_no_token(server: Served, wrong: str) -> None:
    bearer = f"Bearer {wrong}".encode().decode("latin-1")
    assert server.request("/api/v1/about", token=None, Authorization=bearer).status == 401


def test_the_token_counts_in_its_header_only(server: Served) -> None:
    assert server.request(f"/api/v1/about?token={server.token}", token=None).status == 401
    assert server.request("/api/v1/about", token=None, Cookie=f"hypergraph={server.token}").status == 401
    assert server.request("/api/v1/about", token=None, Authorization=f"Basic {server.token}").status == 401


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", ["", None])
def test_no_answer_sets_a_cookie(server: Served, path: str, token: str | None) -> None:
    if not path.endswith("events"):
        assert "set-cookie" not in server.request(path, token=token).headers


def test_the_page_has_one_origin(server: Served) -> None:
    answer = server.request("/", Host=f"localhost:{server.port}")
    assert (answer.status, answer.headers["location"]) == (307, f"http://127.0.0.1:{server.port}/")


# --- where requests come from -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""],
)
def test_only_names_of_this_machine_are_answered(server: Served, host: str) -> None:
    answer = server.request("/api/v1/about", Host=host.format(port=server.port))
    assert code(answer) == (403, "forbidden")


def test_localhost_is_this_machine(server: Served) -> None:
    assert server.request("/api/v1/about", Host=f"localhost:{server.port}").status == 200


def test_two_hosts_are_none(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as raw:
        own = f"127.0.0.1:{server.port}"
        raw.sendall(f"GET /api/v1/about HTTP/1.1\r\nHost: {own}\r\nHost: {own}\r\n\r\n".encode())
        assert raw.recv(100).split(b" ")[1] in (b"400", b"403")


def test_it_listens_on_this_machine_only(server: Served) -> None:
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in {*others, "127.0.0.2"} - {"127.0.0.1"}:
        with pytest.raises(OSError, match=r"refused|timed out|unreachable"):
            socket.create_connection((address, server.port), timeout=2)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/api/v1/about", "/static/index.html"])
def test_other_pages_are_not_answered(server: Served, site: str, path: str) -> None:
    assert code(server.request(path, Sec_Fetch_Site=site)) == (403, "forbidden")
    assert server.request(path, Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://127.0.0.1:{port}"}, 403),
        ({"Origin": "http://localhost:{port}"}, 403),  # not the host it was sent to
        ({"Origin": "http://127.0.0.1:{port}", "Sec_Fetch_Site": "same-site"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 404),
        ({"Origin": "http://127.0.0.1:{port}", "Sec_Fetch_Site": "same-origin"}, 404),
    ],
)
def test_a_browser_changes_things_from_our_page_only(
    server: Served, headers: dict[str, str], status: int
) -> None:
    given = {name: value.format(port=server.port) for name, value in headers.items()}
    answer = server.request("/api/v1/delete", "POST", body={"id": "no such"}, **JSON, **given)
    assert answer.status == status, answer.body


def test_what_a_form_can_send_is_refused(server: Served) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = server.request("/api/v1/delete", "POST", body={"id": "loop-1"}, Content_Type=kind)
        assert code(answer) == (415, "usage")
    assert server.ask("workflow", id="loop-1").status == 200


# --- methods, routes, sizes ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_questions_are_only_asked(server: Served, method: str) -> None:
    answer = server.request("/api/v1/workflows", method, body={}, **JSON)
    assert answer.status == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "OPTIONS"])
def test_wishes_are_only_posted(server: Served, method: str) -> None:
    assert server.request("/api/v1/delete", method).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/",
        "/api/v1/workflows/",
        "/api/v1//workflows",
        "/api/v1/Workflows",
        "/api/v1/workflow/loop-1",
        "/api/v1/%77orkflows",
        "/api/v2/workflows",
        "/api/v1/../v1/workflows",
        "/health",
        "/docs",
        "/openapi.json",
        "/static",
        "/static/",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static//etc/passwd",
        "/static/vendor/../../server.py",
        "/static/vendor",
        "/static/.hidden",
        "/static/index.html%00.js",
        "/static/nothing.js",
        "//evil.example",
    ],
)
def test_there_is_nothing_anywhere_else(server: Served, path: str) -> None:
    assert server.request(path).status in (404, 403), path


def test_a_body_has_a_limit(server: Served) -> None:
    long = b'{"id": "' + b"x" * BODY + b'"}'
    answer = server.request("/api/v1/tag", "POST", body=long, **JSON)
    assert answer.status == 413
    assert server.ask("about").status == 200


@pytest.mark.parametrize(
    "body", [b"", b"[", b"[]", b"\xff", b"[" * 100_000, b'{"id": 1}', b'{"id": "x", "y": 1}']
)
def test_a_body_that_is_no_wish_is_refused(server: Served, body: bytes) -> None:
    assert code(server.request("/api/v1/tag", "POST", body=body, **JSON)) == (400, "usage")


def test_rubbish_on_the_wire_gets_no_answer_of_ours(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as raw:
        raw.sendall(b"\x00\x01\x02 rubbish\r\n\r\n")
        assert b" 400 " in raw.recv(200).split(b"\r\n")[0]
    assert server.ask("about").status == 200


# --- what every answer carries ------------------------------------------------------------------------

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.mark.parametrize("path", [path for path in PATHS if not path.endswith("events")])
@pytest.mark.parametrize("known", [True, False])
def test_every_answer_forbids_what_the_page_does_not_need(server: Served, path: str, known: bool) -> None:
    answer = server.request(path, token="" if known else None)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    rules = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    script = rules.pop("script-src").split(" ")
    assert script[0] == "'self'"
    assert all(source.startswith("'sha256-") for source in script[1:])
    assert rules == {
        "default-src": "'none'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    wanted = "no-cache" if answer.status == 200 and not path.startswith("/api") else "no-store"
    assert answer.headers["cache-control"] == wanted
    assert not [name for name in answer.headers if name.startswith(("access-control", "server"))]


def test_the_only_script_in_the_page_is_the_one_that_the_policy_names(server: Served) -> None:
    answer = server.request("/")
    scripts = re.findall(rb"<script([^>]*)>(.*?)</script>", answer.body, re.DOTALL)
    inside = [text for attributes, text in scripts if b"src=" not in attributes]
    hashes = [base64.b64encode(hashlib.sha256(text).digest()).decode() for text in inside]
    assert [f"'sha256-{text}'" in answer.headers["content-security-policy"] for text in hashes] == [True]
    assert b" on" not in b"".join(attributes for attributes, _ in scripts)


def test_files_are_asked_for_again_only_when_they_changed(server: Served) -> None:
    first = server.request("/static/style.css")
    assert first.headers["content-type"] == "text/css; charset=utf-8"
    assert first.body == (FOLDER / "style.css").read_bytes()
    again = server.request("/static/style.css", If_None_Match=first.headers["etag"])
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])


def test_a_link_that_leads_out_of_the_folder_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "static"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "secret.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "plain.txt").write_text("plain")
    monkeypatch.setattr("hypergraph.ui.assets.FOLDER", folder)
    assert asset("secret.txt") is None
    found = asset("plain.txt")
    assert found is not None
    assert found.content == b"plain"


# --- failures -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_neither_answers_nor_the_log_show_tracebacks_or_values(tmp_path: Path) -> None:
    file = tmp_path / "story.db"
    store = SqliteCheckpointer(file)
    asyncio.run(write_story(store))
    store.close()
    with serving(file, "--app", "support.ui_serving:inverse") as server:
        assert server.ask("workflow", id="inverse-1").status == 200
        assert server.wish("resume", id="inverse-1", values={"note": SECRET}).status == 200
        file.write_bytes(b"no database at all, and longer than a header " * 100)
        broken = [
            server.ask("workflows"),
            server.ask("state", id="loop-1"),
            server.ask("columns", id="loop-1"),
        ]
        assert [answer.status for answer in broken] == [503] * 3
        assert all(b"Traceback" not in answer.body for answer in broken)
        _, said = server.stop()
    assert "Traceback" not in said
    assert SECRET not in said
    assert "loop-1" not in said

"""Connection and request (N): what is sent, to which socket, and how a name is proved."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from deployments.web.errors import BadResponse, RedirectRefused, TimedOut, TlsFailed, TooLarge, WebError
from deployments.web.transport import trusted
from tests.web.certificates import Authority
from tests.web.conftest import GOOD, OTHER, Web, redirect, response

PAGE = response(b"<p>Here it is")
SENT = {
    "User-Agent: recall-serve (page reader)",
    "Accept: text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5",
    "Accept-Encoding: gzip",
    "Accept-Language: en,*;q=0.5",
    "Connection: close",
}


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secrets_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / ".netrc").write_text("machine good.example login ana password hunter2\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    return tmp_path


async def test_exactly_this_is_sent_whatever_the_environment_says(web: Web, secrets_in_the_environment: Path) -> None:
    """N02, N03, N07, H06: one GET without a body, and no request for what the page names."""
    await web.get(
        response(b"<link rel=stylesheet href=/s><img src=/i><iframe src=/f></iframe><script src=/j></script><p>Text")
    )
    line, *headers = web.requests[0].decode().rstrip().split("\r\n")
    assert line == "GET / HTTP/1.1" and len(web.requests) == 1
    assert sorted(headers) == sorted(SENT | {"Host: good.example"})
    assert web.network.attempts == [(GOOD, 80)]


async def test_a_port_that_is_not_usual_stays_in_the_host_header(web: Web) -> None:
    """N04."""
    await web.listen([(GOOD, 8080)])
    web.answer("good.example:8080/", PAGE)
    page = await web.open("http://good.example:8080/", ports=frozenset({80, 8080}))
    assert (page.url, page.host) == ("http://good.example:8080/", "good.example")


async def test_an_ipv6_host_has_its_brackets(web: Web) -> None:
    await web.listen([("2606:4700:4700::1111", 80)])
    web.answer("[2606:4700:4700::1111]/", PAGE)
    assert (await web.open("http://[2606:4700:4700:0::1111]/")).host == "2606:4700:4700::1111"


async def test_tls_proves_the_name_while_the_socket_goes_to_the_address(
    web: Web, authority: Authority, secrets_in_the_environment: Path
) -> None:
    """N02, N04: the name is also what the server is told (SNI)."""
    asked = []
    server = authority.server("good.example")
    server.sni_callback = lambda _, name, __: asked.append(name)
    await web.listen([(GOOD, 443)], server)
    web.answer("good.example/", PAGE)
    assert (await web.reader(authority.trusting()).open("https://good.example/")).text == "Here it is"
    assert asked == ["good.example"] and web.network.attempts == [(GOOD, 443)]


async def test_an_address_is_proved_as_an_address(web: Web, authority: Authority) -> None:
    await web.listen([(GOOD, 443)], authority.server(GOOD))
    web.answer("/", PAGE)
    assert (await web.reader(authority.trusting()).open(f"https://{GOOD}/")).text == "Here it is"


@pytest.mark.parametrize(
    "server",
    [{"host": "other.example"}, {"host": "*.example.example"}, {"host": GOOD}, {"host": "good.example", "days": -1},
     {"host": "good.example", "self_signed": True}, {"host": "good.example", "old": True}],
    ids=["other-name", "other-wildcard", "address-not-name", "expired", "self-signed", "TLS-1.1"],
)  # fmt: skip
async def test_a_certificate_that_proves_nothing(server: dict[str, object], web: Web, authority: Authority) -> None:
    """N05: nothing is sent."""
    await web.listen([(GOOD, 443)], authority.server(**server))  # type: ignore[arg-type]
    with pytest.raises(TlsFailed):
        await web.reader(authority.trusting()).open("https://good.example/")
    assert web.requests == []


async def test_an_authority_of_the_environment_is_not_trusted(
    web: Web, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N02."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority._folder / "authority.pem"))
    await web.listen([(GOOD, 443)], authority.server("good.example"))
    with pytest.raises(TlsFailed):
        await web.reader(trusted()).open("https://good.example/")


def test_the_trust_that_is_used_verifies_and_writes_no_keys(secrets_in_the_environment: Path) -> None:
    context = trusted()
    assert context.check_hostname and context.verify_mode == ssl.CERT_REQUIRED and context.keylog_filename is None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2 and context.cert_store_stats()["x509_ca"] > 50


async def test_https_does_not_lead_down_to_http_and_http_leads_up(web: Web, authority: Authority) -> None:
    """R09."""
    await web.listen([(GOOD, 443)], authority.server("good.example"))
    await web.listen([(OTHER, 443)], authority.server("other.example"))
    web.answer("good.example/", redirect("http://other.example/"))
    reader = web.reader(authority.trusting())
    with pytest.raises(RedirectRefused):
        await reader.open("https://good.example/")
    assert web.network.attempts == [(GOOD, 443)]
    web.answer("good.example/up", redirect("https://other.example/"))
    web.answer("other.example/", PAGE)
    assert (await reader.open("http://good.example/up")).url == "https://other.example/"
    assert (await reader.open("https://good.example/up")).url == "https://other.example/"


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def test_a_server_that_says_nothing_ends_with_the_deadline(web: Web) -> None:
    """N06."""
    with pytest.raises(TimedOut) as error:
        await web.get(silent, deadline_seconds=0.3)
    assert error.value.args == ("good.example", 0.3)


async def test_a_handshake_that_stalls_ends_with_the_deadline(web: Web) -> None:
    """N06."""
    await web.listen([(GOOD, 443)])  # it waits for a request in the clear
    with pytest.raises(TimedOut):
        await web.open("https://good.example/", deadline_seconds=0.3)
    await asyncio.wait_for(web.idle(), 2)  # the connection was closed, not left to the garbage collector


async def test_a_connection_that_is_never_made_ends_with_its_time(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*arguments: object, **keywords: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(web.network, "connect_tcp", hang)
    with pytest.raises(TimedOut):
        await web.open(deadline_seconds=0.2)


async def test_an_opening_that_is_cancelled_closes_its_connection(web: Web) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.set()
        assert await reader.read() == b""
        ended.set()

    task = asyncio.create_task(web.get(wait))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 2)


@pytest.mark.parametrize("upgrade", ["101 Switching Protocols", "426 Upgrade Required"])
async def test_no_other_protocol_is_spoken(upgrade: str, web: Web) -> None:
    """N07."""
    with pytest.raises(WebError) as error:
        await web.get(response(b"", "Upgrade: h2c", "Connection: Upgrade", 'Alt-Svc: h3=":443"', status=upgrade))
    assert error.value.code in ("http_status", "bad_response") and len(web.requests) == 1


async def test_interim_answers_without_end_are_counted(web: Web) -> None:
    """B03: at full speed they reach the bound, dripped they reach the deadline."""

    async def continues(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 2000)
            await writer.drain()

    with pytest.raises((TooLarge, TimedOut)):
        await web.get(continues, body_bytes=1000, deadline_seconds=8)


@pytest.mark.parametrize("level", [logging.DEBUG])
async def test_no_log_holds_a_path_or_a_page(level: int, web: Web, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(level):
        web.answer("/secret-path?q=secret-query", response(b"<p>secret-text", "X-Secret: secret-header"))
        await web.open("http://good.example/secret-path?q=secret-query")
        with pytest.raises(BadResponse):
            await web.get(b"secret-garbage\r\n\r\n")
    assert "secret-" not in caplog.text


async def test_many_openings_at_once_each_end(web: Web) -> None:
    """N10: processes are bounded, and no opening waits for another one's page."""
    web.answer("/slow", silent)
    web.answer("/", PAGE)
    reader = web.reader(deadline_seconds=15)
    slow = [asyncio.create_task(reader.open("http://good.example/slow")) for _ in range(20)]
    pages = await asyncio.gather(*(reader.open("http://good.example/") for _ in range(20)))
    assert {page.text for page in pages} == {"Here it is"} and not any(task.done() for task in slow)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)

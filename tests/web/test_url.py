"""Which URLs are refused before anything is looked up (F), and what the others become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.web.errors import BadUrl, PortRefused, WebError
from deployments.web.url import join, parse
from tests.web.conftest import GOOD, Web, header, response

PORTS = frozenset({80, 443})
REFUSED = {
    "F01": ["http://2130706433/"],
    "F02": ["http://017700000001/"],
    "F03": ["http://0x7f000001/"],
    "F04": ["http://0x7f.1/"],
    "F05": ["http://127.1/"],
    "F06": ["http://127.0.1/"],
    "F07": ["http://0177.0.0.1/", "http://08.8.8.8/", "http://8.8.8.8.8/", "http://good.example.1/"],
    "F08": ["http://0/", "http://0x/", "http://0x8.8.8.8/"],
    "F09": ["http://127.0.0.1./", "http://localhost./", "http://8.8.8.8../", "http://good.example../"],
    "F10": ["http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://ｌｏｃａｌｈｏｓｔ/", "http://１２７.0.0.1/"],
    "F11": ["http://%31%32%37.0.0.1/", "http://loc%61lhost/", "http://good%2eexample/", "http://good.example%2f/"],
    "F12": [r"http://good.example\@127.0.0.1/", r"http://127.0.0.1\@good.example/", r"http://good.example/\127.0.0.1",
            r"http:\\good.example/", r"http:/\good.example/", r"http://good.example\.evil.example/"],
    "F13": ["http://user:pw@good.example/", "http://good.example@127.0.0.1/", "http://:@good.example/",
            "http://[::1]@good.example/", "http://@good.example/", "http://a:80@good.example/"],
    "F15": [f"http://good.example/a{char}b" for char in " \t\r\n\0\x7f\x85\u2028\u2029\u00a0\u3000\u200b\u202e\ufeff\ue000"]
           + ["http://good.ex\nample/", "http://good\t.example/", " http://good.example/", "http://good.example/\n",
              "http://good.example /", "h\nttp://good.example/", "http://good.example/\ud800"],
    "F16-literal-space": ["http://good.example/%0d%0aX: y"],
    "F17": ["http://good\0.evil.example/", "http://good%00.evil.example/", "http://127.0.0.1%00.good.example/"],
    "F18": ["http:/good.example", "http:good.example", "http:///good.example", "//good.example", "good.example", "",
            "http://", "http://[]", "http://:80", "http://?x", "http://#x", "http:////good.example/", "://good.example"],
    "F20": ["http://[fe80::1%25lo]/", "http://[fe80::1%lo]/", "http://[2606:4700::1%lo]/", "http://[2606:4700::1%25lo]/",
            "http://[::1/", "http://::1/", "http://[2606:4700::1]x/", "http://[v1.a]/", "http://2606:4700::1/"],
    "F21": [f"http://good.example:{port}/" for port in ("0", "65536", "99999", "-1", "８０", " 80", "8a", "007", "+80", "80:80",
                                                       "4294967376", "080")],
    "F23": [f"{scheme}:good.example/" for scheme in ("data", "javascript", "about", "blob", "mailto", "jar:http")]
           + [f"{scheme}://good.example/" for scheme in ("file", "ftp", "gopher", "dict", "ldap", "view-source:http", "ws",
                                                         "wss", "unix", "http+unix", "httpſ", "https2", " http", "ｈttp")],
    "F25-not-a-name": ["http://-good.example/", "http://good-.example/", "http://a_b.example/", "http://good..example/",
                       "http://.good.example/", "http://xn--a/", "http://xn--zzzzzz9999.example/",
                       "http://a" + "a" * 63 + ".example/",
                       "http://" + "a." * 130 + "example/", "http://go!od.example/", "http://good,example/", "http://i❤.example/",
                       "http://good.example\u200d/", "http://*.example/", "http://$(x).example/"],
    "F27": ["http://good.example/" + "a" * 2048, "http://good.example/" + "č" * 1020, "http://good.example/" + "a" * 65536],
    "F29": [f"http://{host}/" for host in ("metadata", "postgres", "ray-head", "localhost", "LOCALHOST", "x.localhost",
            "printer.local", "db.internal", "nas.lan", "router.home.arpa", "1.0.0.127.in-addr.arpa", "a.svc",
            "a.b.svc.cluster.local", "x.onion", "x.i2p", "host.docker.internal", "ip6-localhost", "x.localdomain",
            "x.corp", "x.home", "x.intranet", "x.private", "com")],
    "F30": [f"http://{host}/" for host in ("metadata.google.internal", "metadata.google.internal.",
            "METADATA.google.internal", "instance-data.ec2.internal", "metadata.azure.internal",
            "metadata.tencentyun.com", "metadata.packet.net", "x.metadata.packet.net")],
    "N01": [f"http://good.example:{port}/" for port in (22, 25, 6379, 8265, 10001, 52365, 5432, 8080, 81, 65535)],
}  # fmt: skip


def cases() -> list[object]:
    return [pytest.param(url, id=f"{case}-{place}") for case, urls in REFUSED.items() for place, url in enumerate(urls)]


@pytest.mark.parametrize("url", cases())
async def test_what_is_refused_is_neither_looked_up_nor_connected_to(url: str, web: Web) -> None:
    """U1, U2."""
    with pytest.raises(WebError) as error:
        await web.open(url)
    assert error.value.code in ("bad_url", "port_refused", "address_refused")
    assert (web.names.asked, web.network.attempts) == ([], [])


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        pytest.param("http://good.example/%0d%0aX:%20y", "http://good.example/%0d%0aX:%20y", id="F16"),
        pytest.param("http://good.example:/", "http://good.example/", id="F22"),
        pytest.param("HTTP://GOOD.example/A", "http://good.example/A", id="F23"),
        pytest.param("http://faß.example/", "http://xn--fa-hia.example/", id="F25-sharp-s"),
        pytest.param("http://bücher.example/", "http://xn--bcher-kva.example/", id="F25-umlaut"),
        pytest.param("http://BÜCHER。example/", "http://xn--bcher-kva.example/", id="F25-mapped"),
        pytest.param("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/", id="F25-a-label"),
        pytest.param("http://r3---sn-4g5e.example/", "http://r3---sn-4g5e.example/", id="hyphens"),
        pytest.param("http://раура.example/", "http://xn--80aa0cbo.example/", id="F26-confusable"),
        pytest.param("http://good.example/a#secret", "http://good.example/a", id="F28"),
        pytest.param("http://good.example#x", "http://good.example/", id="F28-no-path"),
        pytest.param("http://good.example?q=č&x=\"<>", "http://good.example/?q=%C4%8D&x=%22%3C%3E", id="query"),
        pytest.param(r"http://good.example/?a=\b", "http://good.example/?a=%5Cb", id="backslash-in-query"),
        pytest.param("http://good.example/čaj/می\u200cخواهم", "http://good.example/%C4%8Daj/"
                     "%D9%85%DB%8C%E2%80%8C%D8%AE%D9%88%D8%A7%D9%87%D9%85", id="path-in-any-script"),
        pytest.param("http://good.example/a%zz%41", "http://good.example/a%zz%41", id="percent-as-it-came"),
        pytest.param("http://good.example./", "http://good.example/", id="absolute-name"),
        pytest.param("http://8.8.8.8/", "http://8.8.8.8/", id="ipv4"),
        pytest.param("http://[2606:4700:0:0::1111]/", "http://[2606:4700::1111]/", id="ipv6"),
        pytest.param("https://good.example:443/", "https://good.example/", id="usual-port"),
        pytest.param("https://good.example:80/", "https://good.example:80/", id="other-port"),
        pytest.param("http://good.example/a/../b//c/.", "http://good.example/a/../b//c/.", id="dots-as-they-came"),
        pytest.param("http://good.example/a@b:c?d/e?f@g", "http://good.example/a@b:c?d/e?f@g", id="marks-after-the-host"),
    ],
)  # fmt: skip
def test_what_passes_is_sent_in_one_form(url: str, sent: str) -> None:
    assert str(parse(url, PORTS)) == sent
    assert str(parse(sent, PORTS)) == sent


@pytest.mark.parametrize(
    "url", ["http://good.example/%0d%0aX:%20y", "http://good.example/a#secret", "http://good.example/?č"]
)
async def test_one_request_line_and_no_fragment_on_the_wire(url: str, web: Web) -> None:
    """F16, F28."""
    web.answer(parse(url, PORTS).target, response(b"<p>Here it is"))
    assert (await web.open(url)).text == "Here it is"
    assert web.requests[0].count(b" HTTP/1.1\r\n") == 1 and b"secret" not in web.requests[0]
    assert header(web.requests[0], "x") == ""


async def test_the_name_that_is_resolved_is_the_name_that_is_sent(web: Web) -> None:
    """F25, F26, R14."""
    web.names.known["xn--fa-hia.example"] = [GOOD]
    web.answer("xn--fa-hia.example/", response(b"<p>Here it is"))
    page = await web.open("http://Faß.example/")
    assert (web.names.asked, page.url, page.host) == (
        ["xn--fa-hia.example"],
        "http://xn--fa-hia.example/",
        "xn--fa-hia.example",
    )


@pytest.mark.parametrize("name", ["169.254.169.254.nip.io", "metadata.example.com"])
async def test_a_name_for_a_metadata_address_is_refused_by_address(name: str, web: Web) -> None:
    """F32."""
    web.names.known[name] = ["169.254.169.254"]
    with pytest.raises(WebError) as error:
        await web.open(f"http://{name}/latest/meta-data")
    assert (error.value.code, web.network.attempts) == ("address_refused", [])
    assert "169.254.169.254 " not in str(error.value) + " " and "latest" not in str(error.value)


def test_a_configured_port_is_opened_and_no_other() -> None:
    assert str(parse("http://good.example:8080/", {80, 8080})) == "http://good.example:8080/"
    with pytest.raises(PortRefused):
        parse("https://good.example/", {80, 8080})


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("b", "http://good.example/x/b"),
        ("/b", "http://good.example/b"),
        ("../b", "http://good.example/b"),
        ("../../../b", "http://good.example/b"),
        ("?q", "http://good.example/x/y?q"),
        ("#f", "http://good.example/x/y?z"),
        ("//other.example/b", "http://other.example/b"),
        ("https://other.example", "https://other.example/"),
        (" a b ", "http://good.example/x/a%20b"),
        ("a\u200cb", "http://good.example/x/a%E2%80%8Cb"),
        ("./a:b", "http://good.example/x/a:b"),
        ("/a//b", "http://good.example/a//b"),
    ],
)
def test_a_reference_is_joined(reference: str, target: str) -> None:
    """R05."""
    assert str(join(parse("http://good.example/x/y?z", PORTS), reference, PORTS)) == target


@pytest.mark.parametrize(
    "reference",
    [r"\\evil.example", r"/\evil.example", "http:evil", "http:/evil", "///", "//", "//a@b.example", "a\nb", "a:b", "//[::1",
     "http:///evil.example", "//good.example:22/", "a\u202eb", "x" * 3000],
)  # fmt: skip
def test_a_reference_that_leads_nowhere_is_refused(reference: str) -> None:
    with pytest.raises(WebError):
        join(parse("http://good.example/x", PORTS), reference, PORTS)


@given(st.text(alphabet="/\\.:@#?[]%ab1☃ \t", max_size=12))
def test_whatever_stands_in_a_reference_the_host_is_one_of_the_two_readable_ones(text: str) -> None:
    base = parse("http://good.example/x", PORTS)
    try:
        target = join(base, text, PORTS)
    except WebError:
        return
    assert target.host == "good.example" or text.lstrip().startswith("//")
    assert str(parse(str(target), PORTS)) == str(target)


@given(st.text(max_size=40))
def test_any_text_is_a_url_or_a_clean_error(text: str) -> None:
    for url in (text, "http://" + text, "http://good.example/" + text):
        try:
            target = parse(url, PORTS)
        except WebError as error:
            assert str(error)
            continue
        assert str(target).isascii() and not set(str(target)) & set(" \r\n\t\0#")


def test_a_reason_does_not_repeat_the_url() -> None:
    with pytest.raises(BadUrl) as error:
        parse("http://user:hunter2@good.example/secret", PORTS)
    assert "hunter2" not in str(error.value) and "secret" not in str(error.value)

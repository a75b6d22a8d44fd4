"""Bytes to text (C01, C03): mark, header, the page's own word, a guess, in this order."""

from __future__ import annotations

import codecs

import pytest

from deployments.web.charset import decoded

CROATIAN = "Čokolada, šuma, žaba i đak. Želim čašu čaja, ćup i šećer; češće pada kiša u Šibeniku. Riječ je o knjizi."
SAMPLES = {
    "croatian": CROATIAN,
    "polish": "Zażółć gęślą jaźń. Książka leży na stole, a w ogródku rosną świeże śliwki i żółte słoneczniki, które lubię.",
    "german": "Größe, Straße und Übermut tun selten gut; die Äpfel fallen, und der Bär frißt süßen Honig in der Höhle.",
    "russian": "Съешь же ещё этих мягких французских булок, да выпей чаю. Погода сегодня хорошая, и мы идём гулять в парк.",
    "greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ο καιρός σήμερα είναι καλός και πηγαίνουμε μια βόλτα στο πάρκο.",
    "japanese": "日本語の文章です。今日は天気がいいので、公園へ散歩に行きましょう。ひらがなとカタカナと漢字があります。",
}


@pytest.mark.parametrize("encoding", ["iso-8859-2", "windows-1250", "utf-8", "utf-16", "iso-8859-16"])
def test_croatian_by_its_header(encoding: str) -> None:
    assert decoded(CROATIAN.encode(encoding), encoding, "html") == CROATIAN


@pytest.mark.parametrize("encoding", ["iso-8859-2", "windows-1250", "utf-8"])
@pytest.mark.parametrize(
    "meta",
    ["<meta charset={}>", '<meta charset="{}"/>', "<META HTTP-EQUIV=Content-Type CONTENT='text/html; charset={}'>",
     "<!doctype html><html><head><title>x</title>\n<meta   charset = '{}' >"],
)  # fmt: skip
def test_croatian_by_its_own_word(meta: str, encoding: str) -> None:
    page = f"{meta.format(encoding)}<p>{CROATIAN}"
    assert decoded(page.encode(encoding), "", "html") == page


@pytest.mark.parametrize(
    ("sample", "encoding"),
    [("croatian", "iso-8859-2"), ("croatian", "windows-1250"), ("croatian", "utf-8"), ("polish", "iso-8859-2"),
     ("polish", "windows-1250"),
     ("german", "windows-1252"), ("russian", "windows-1251"), ("russian", "koi8-r"), ("greek", "windows-1253"),
     ("japanese", "shift_jis"),
     ("japanese", "euc-jp")],
)  # fmt: skip
@pytest.mark.parametrize(
    "before", ["", "<html><body>" + "<p class=a>plain ascii words</p>\n" * 2000], ids=["short", "behind-much-markup"]
)
def test_a_guess(sample: str, encoding: str, before: str) -> None:
    assert decoded((before + SAMPLES[sample]).encode(encoding), "", "html") == before + SAMPLES[sample]


@pytest.mark.parametrize(
    ("body", "header", "text"),
    [
        pytest.param(codecs.BOM_UTF8 + "č".encode(), "iso-8859-2", "č", id="mark-before-header"),
        pytest.param(codecs.BOM_UTF16_LE + "č".encode("utf-16-le"), "utf-8", "č", id="mark-of-utf-16"),
        pytest.param("<meta charset=windows-1251>č".encode(), "utf-8",
                     "<meta charset=windows-1251>č", id="C01-header-before-meta"),
        pytest.param(b"<meta charset=windows-1251>\xe9", "", "<meta charset=windows-1251>й", id="C01-meta-before-guess"),
        pytest.param("<!-- <meta charset=windows-1251> -->č".encode(), "",
                     "<!-- <meta charset=windows-1251> -->č", id="meta-in-a-comment"),
        pytest.param("<meta charset=utf-16>č".encode(), "", "<meta charset=utf-16>č", id="meta-cannot-say-utf-16"),
        pytest.param("<meta charset=utf-7>+AGE-č".encode(), "", "<meta charset=utf-7>+AGE-č", id="utf-7-is-nothing"),
        pytest.param("č".encode(), "utf-7", "č", id="utf-7-in-a-header"),
        pytest.param("č".encode(), "unicode_escape", "č", id="python-codec"),
        pytest.param("č".encode(), "rot13", "č", id="python-transform"),
        pytest.param("č".encode(), "no-such-charset", "č", id="unknown"),
        pytest.param(b"\x93a\x94", "iso-8859-1", "“a”", id="latin-1-is-windows-1252"),
        pytest.param(b"\x93a\x94", "us-ascii", "“a”", id="ascii-is-windows-1252"),
        pytest.param("a€".encode("gb18030"), "gb2312", "a€", id="gb2312-is-gb18030"),
        pytest.param('<?xml version="1.0" encoding="windows-1250"?>č'.encode("cp1250"), "",
                     '<?xml version="1.0" encoding="windows-1250"?>č', id="xml"),
        pytest.param("č".encode("utf-16-le"), "utf-16", "č", id="C03-utf-16-without-mark"),
        pytest.param("č".encode("utf-16-be"), "utf-16be", "č", id="C03-utf-16be"),
        pytest.param(b"a\xc0\xafb", "utf-8", "a\ufffd\ufffdb", id="C03-overlong"),
        pytest.param(b"a\xed\xa0\x80b", "utf-8", "a\ufffd\ufffd\ufffdb", id="C03-surrogate"),
        pytest.param(b"a\xff\xfeb", "utf-8", "a\ufffd\ufffdb", id="C03-invalid"),
        pytest.param(b"\x00\xd8a\x00", "utf-16le", "\ufffd", id="C03-half-a-pair"),
        pytest.param("čaj".encode()[:-3], "", "\ufffd", id="cut-within-a-character"),
        pytest.param(b"", "", "", id="nothing"),
        pytest.param(b"abc", "", "abc", id="ascii"),
    ],
)  # fmt: skip
def test_order_and_labels(body: bytes, header: str, text: str) -> None:
    assert decoded(body, header, "html").startswith(text)


@pytest.mark.parametrize("kind", ["text", "json"])
def test_only_markup_has_a_meta(kind: str) -> None:
    page = "<meta charset=windows-1251>č"
    assert decoded(page.encode(), "", kind) == page  # type: ignore[arg-type]

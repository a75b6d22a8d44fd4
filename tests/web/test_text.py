"""Markup to text (C03, C04, H03, H04): what is kept, what falls away, which links have numbers."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.web.reduce import Job, Reduced, reduce
from tests.web.conftest import words

HERE = "http://good.example/dir/page?x=1"
FILL = "<p>" + "Enough words to be taken for a page of its own. " * 6 + "</p>"


def read(
    html: str | bytes, kind: Any = "html", charset: str = "", url: str = HERE, chars: int = 100_000, links: int = 50
) -> Reduced:
    body = html.encode() if isinstance(html, str) else html
    return reduce(Job(kind, charset, url, [80, 443], chars, links), body)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        pytest.param("<h1>One</h1><h3>Two</h3><p>Three", "# One\n\n### Two\n\nThree", id="headings"),
        pytest.param("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>e", "- a\n- b\n  - c\n- d\n\ne", id="lists"),
        pytest.param("<ol start=3><li>a<li>b</ol><ol><li>c", "3. a\n4. b\n\n1. c", id="numbered"),
        pytest.param("<ul><li><p>a</p><p>b</p><li><p>c", "- a\n\nb\n\n- c", id="paragraphs-in-lists"),
        pytest.param("<ul><li></li><li>a</ul><h2></h2><p>b", "- a\n\nb", id="empty-things-leave-no-marks"),
        pytest.param("<pre>\ndef f():\n    return 1\n\n\tx\n</pre>", "```\ndef f():\n    return 1\n\n\tx\n```", id="code"),
        pytest.param("<pre><code>a</code><br>b</pre>after", "```\na\nb\n```\n\nafter", id="code-in-pre"),
        pytest.param("Call <code>f(x)</code>, now", "Call `f(x)`, now", id="code-in-a-line"),
        pytest.param("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2", id="table"),
        pytest.param("<table><tr><td><p>one</p><p>two</p><td>three</table>", "one\n\ntwo\n\nthree", id="table-for-layout"),
        pytest.param("a<br>b<br><br>c", "a\nb\n\nc", id="line-breaks"),
        pytest.param("<p>  a \n\t b <b> c </b>d</p>", "a b c d", id="blanks"),
        pytest.param("a&nbsp;&nbsp;b&#8203;c&#0;", "a bc\ufffd", id="entities"),
        pytest.param("<dl><dt>T<dd>D<dt>U<dd>E</dl>", "T\nD\nU\nE", id="definitions"),
        pytest.param("<p>1<blockquote>2</blockquote>3<hr>4", "1\n\n2\n\n3\n\n4", id="apart"),
        pytest.param("<div>1<div>2</div>3</div><span>4</span><span>5</span>", "1\n2\n3\n45", id="lines"),
        pytest.param("<details><summary>S</summary>inside</details>", "S\ninside", id="details"),
        pytest.param("2 &lt; 3 &amp;&amp; &quot;x&quot;", '2 < 3 && "x"', id="marks"),
        pytest.param("<p>çà — “naïve” 日本語 👩\u200d💻 می\u200cخواهم",
                     "çà — “naïve” 日本語 👩\u200d💻 می\u200cخواهم", id="scripts"),
        pytest.param("<p>un<b>closed <i>every<a href=/x>where <li>yes <td>and <div>on",
                     "unclosed everywhere [1]\n\n- yes and\non [1]", id="broken"),
    ],
)  # fmt: skip
def test_shape(html: str, text: str) -> None:
    assert read(html).text == text


@pytest.mark.parametrize(
    "part",
    [
        "<script>EVIL</script>", "<style>EVIL{}</style>", "<template>EVIL</template>", "<!-- EVIL -->",
        "<noscript>EVIL</noscript>",
        "<div hidden>EVIL</div>", "<div hidden=until-found>EVIL</div>", '<div aria-hidden="true">EVIL</div>',
        '<div style="display:none">EVIL</div>', '<div style="DISPLAY : NONE !important">EVIL</div>',
        '<div style="color:red;visibility:hidden">EVIL</div>', '<p style="font-size:0">EVIL', '<p style="font-size:0px;">EVIL',
        '<p style="font-size: 0.0em">EVIL', '<p style="opacity:0">EVIL', '<p style="opacity:0.0;">EVIL',
        '<p style="position:absolute; left:-9999px">EVIL', '<p style="text-indent:-1000em">EVIL',
        '<p style="clip: rect(0,0,0,0)">EVIL', '<p style="max-height:0">EVIL',
        '<div style="display:none"><p>a<div>EVIL</div></div>',
        "<iframe srcdoc='EVIL'>EVIL</iframe>", "<object>EVIL</object>", "<svg><text>EVIL</text></svg>", "<canvas>EVIL</canvas>",
        "<input value=EVIL placeholder=EVIL>", "<textarea>EVIL</textarea>", "<select><option>EVIL</select>",
        "<button>EVIL</button>",
        "<img alt=EVIL title=EVIL>", "<p title=EVIL data-x=EVIL>x", "<video poster=EVIL>EVIL</video>", "<dialog>EVIL</dialog>",
        '<script type="application/ld+json">{"x":"EVIL"}</script>', "<math><mi>EVIL</mi></math>",
        "<datalist><option>EVIL</datalist>",
        "<![CDATA[EVIL]]>", "<?EVIL?>", '<meta name=description content="EVIL">', "<embed src=EVIL>",
    ],
)  # fmt: skip
def test_what_nobody_sees_is_not_read(part: str) -> None:
    """H03; also where the page holds nothing else, so that all that is visible is looked for."""
    assert "EVIL" not in read(f"<main>{FILL}{part}</main>{part}").text
    assert "EVIL" not in read(f"<p>short</p>{part}").text


@pytest.mark.parametrize(
    "part",
    ['<p style="opacity:0.5">SEEN', '<p style="font-size:0.9em">SEEN', '<p style="margin-left:-10px">SEEN',
     '<p aria-hidden=false>SEEN',
     '<p style="color:white">SEEN', '<p style="display:block;max-height:100px">SEEN', '<p class="sr-only">SEEN',
     '<p style="background:url(x?display:none)">SEEN', "<p style>SEEN"],
)  # fmt: skip
def test_what_is_only_styled_is_read(part: str) -> None:
    assert "SEEN" in read(f"<main>{FILL}{part}</main>").text


@pytest.mark.parametrize(
    "part",
    ["<nav>MENU</nav>", "<header>MENU</header>", "<footer>MENU</footer>", "<aside>MENU</aside>",
     "<div role=navigation>MENU</div>",
     "<div role=banner>MENU</div>", '<div class="box Cookie-Banner">MENU</div>', "<div class=ad>MENU</div>",
     "<ul class=breadcrumbs><li>MENU</ul>",
     "<div role=search><label>MENU</label></div>", "<div class=sidebar>MENU</div>"],
)  # fmt: skip
def test_what_stands_around_a_page_falls_away(part: str) -> None:
    assert "MENU" not in read(f"{part}<div>{FILL}</div>{part}").text
    assert "MENU" not in read(f"{part}<main>{FILL}</main>{part}").text
    assert "MENU" in read(f"{part}<p>short").text, "it is all there is"


def test_a_page_says_which_part_is_its_own() -> None:
    around = "<div>AROUND</div>"
    for part in ("main", "article", "div role=main"):
        assert (
            "AROUND"
            not in read(
                f"{around}<{part}><header>By Ana</header>{FILL}<aside>A note</aside></{part.split()[0]}>{around}"
            ).text
        )
    text = read(f"{around}<article>{FILL}</article><article>{FILL}</article>").text
    assert "AROUND" in text, "several articles are a list of them"
    inside = read(f"<main><header>By Ana</header>{FILL}<aside>A note</aside></main>").text
    assert "By Ana" in inside and "A note" in inside
    assert "AROUND" in read(f"{around}<main></main>").text, "what it loads later is not there"


@pytest.mark.parametrize(
    "around", ["<div hidden>", "<noscript>", "<div style=display:none><p>", "<svg><foreignObject>", "<template>"]
)
def test_a_hidden_part_is_not_the_pages_own(around: str) -> None:
    close = "".join(f"</{tag.split()[0]}>" for tag in reversed(around.strip("<>").split("><")))
    for tag in ("main", "article", "div role=main"):
        text = read(f"<body>{around}<{tag}>EVIL {FILL}</{tag.split()[0]}>{close}<div>{FILL}</div>").text
        assert "EVIL" not in text and "Enough words" in text
    assert "EVIL" not in read(f"<main hidden>EVIL {FILL}</main><p>short").text


def test_the_title_is_one_clean_line() -> None:
    title = read("<title> a\n b\u202e\u200b &lt;i&gt;\x1b[31m" + "x" * 500 + "</title><p>t").title
    assert title.startswith("a b <i>[31mx") and len(title) == 200
    assert read("<p>t").title == "" and read("x", kind="text").title == ""


@pytest.mark.parametrize("kind", ["html", "text", "json", "xml"])
def test_invisible_characters_are_taken_out(kind: str) -> None:
    """C03, C04."""
    invisible = (
        "\u202e\u2066\u200b\u200e\u2060\ufeff\U000e0041\U000e0100\ue000\U000f0000\x00\x07\x1b\x9b\x85\u00ad\u2028"
    )
    text = read(f"a{invisible}b", kind=kind, charset="utf-8").text
    assert "".join(text.split()) in ("ab", "a\ufffdb") and not any(
        unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs") for c in text if c != "\n"
    )


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("https://a.example/x#f", "https://a.example/x"), ("other", "http://good.example/dir/other"), ("/č", "http://good.example/%C4%8D"),
        ("//b.example", "http://b.example/"), ("?y", "http://good.example/dir/page?y"), (" a b\n", "http://good.example/dir/a%20b"),
        ("HTTPS://A.example", "https://a.example/"), ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("other#f", "http://good.example/dir/other"), ("a&amp;b", "http://good.example/dir/a&b"),
        ("http://127.0.0.1/", "http://127.0.0.1/"),
        *((refused, None) for refused in (
            "#top", "page?x=1#part", "javascript:alert(1)", "JaVaScRiPt:x", "data:text/html,x", "vbscript:x",
            "mailto:a@b.example",
            "file:///etc/passwd", "ftp://a.example/", "http://user:pw@a.example/", "http://user@a.example/", "http://localhost/",
            "http://a.example:22/", "http://2130706433/", r"\\a.example", "tel:123", "http://", "http:a.example",
            "//", "\x01javascript:x",
            "x" * 3000, "blob:http://a.example/", "http://%61.example/", "java\nscript:x", "http://metadata.google.internal/")),
    ],
)  # fmt: skip
def test_a_link_is_numbered_if_it_can_be_opened(href: str, target: str | None) -> None:
    """H04: where it leads is checked again when it is opened."""
    page = read(f'<p>before <a href="{href}">link</a> after')
    assert (page.text, page.links) == (("before link [1] after", [target]) if target else ("before link after", []))


def test_a_link_without_words_has_no_number() -> None:
    page = read(
        '<a href=/a></a><a href=/b> </a><a href=/c><img src=x></a><a href=/d><img alt="Logo"></a><a>none</a>, <a href>same</a>'
    )
    assert page.text == "Logo [1] none, same" and page.links == ["http://good.example/d"]


def test_one_target_has_one_number_and_numbers_follow_the_text() -> None:
    page = read(
        "<a href=/b>b</a> <a href=/a>a</a> <a href='http://good.example/b#x'>again</a> <div><a href=/c><h2>c</h2></a></div>"
    )
    assert page.text == "b [1] a [2] again [1]\n\n## c [3]"
    assert page.links == [f"http://good.example/{name}" for name in "bac"]


@pytest.mark.parametrize(
    ("base", "target"),
    [
        ("/other/", "http://good.example/other/x"), ("https://cdn.example/d/", "https://cdn.example/d/x"),
        ("http://169.254.169.254/", "http://169.254.169.254/x"), ("javascript:", "http://good.example/dir/x"),
        ("http://localhost/", "http://good.example/dir/x"), ("file:///etc/", "http://good.example/dir/x"), ("", "http://good.example/dir/x"),
    ],
)  # fmt: skip
def test_a_base_is_applied_if_it_is_a_page(base: str, target: str) -> None:
    assert read(f'<base href="{base}"><a href=x>x</a>').links == [target]


async def test_a_link_to_a_private_address_is_refused_when_it_is_opened(web: Any) -> None:
    """H04."""
    from deployments.web.errors import AddressRefused
    from tests.web.conftest import response

    page = await web.get(response(b'<base href="http://169.254.169.254/"><a href=latest>x</a>'))
    with pytest.raises(AddressRefused):
        await web.open(page.links[0])


def test_links_beyond_the_bound_stand_without_a_number_and_are_counted() -> None:
    """H02: 3,000 links."""
    page = read("".join(f"<li><a href=/{n}>link {n}</a>" for n in range(3000)), links=1000)
    assert (len(page.links), page.links_left_out, page.truncated) == (1000, 2000, False)
    assert "link 999 [1000]\n- link 1000\n" in page.text and page.text.endswith("- link 2999")


def test_text_beyond_the_bound_is_cut_and_said() -> None:
    for html, kind in (("<p>" + "word " * 1000, "html"), ("word " * 1000, "text"), ("<p>word</p>" * 1000, "html")):
        page = read(html, kind=kind, chars=100)
        assert page.truncated and 90 <= len(page.text) <= 100
    assert not read("<p>" + "w" * 100, chars=100).truncated


@pytest.mark.parametrize(
    "html", ["<frameset><frame src=/a></frameset>", "", "<", "<html", "\x00", "<!doctype", "]]>", "<body><body>"]
)
def test_a_page_without_a_body_is_empty_text(html: str) -> None:
    assert len(read(html).text) <= 3


PARTS = words("""
<p> </p> <ul> <li> </ul> <ol start=-1> <pre> </pre> <code> </code> <table> <tr> <td> </table> <a href=/x> </a>
<br> <h2> </h2> <main> </main> <article> <nav> </nav> <div hidden> </div> <svg> <math> <template> <select>
<option> <b> <i> <base> <frameset> <form> <![CDATA[ <!-- --> &amp; &#x202e; word čaj \u202e <img alt=x>
<script> </script> <title> <plaintext>
""")
MARKUP = st.lists(st.sampled_from([*PARTS, "\n"]), max_size=30)


@given(MARKUP)
def test_any_markup_gives_clean_text_and_links_that_fit(parts: list[str]) -> None:
    page = read(" ".join(parts))
    assert not any(
        unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs") for char in page.text if char not in "\n\t\u200c\u200d"
    )
    assert page.links in ([], ["http://good.example/x"]) and ("[1]" in page.text) is bool(page.links)


@given(
    st.binary(max_size=200),
    st.sampled_from(["", "utf-8", "utf-16", "iso-8859-2", "shift_jis", "iso-2022-jp", "utf-7", "x"]),
)
def test_any_bytes_give_text(body: bytes, charset: str) -> None:
    for kind in ("html", "text", "xml"):
        read(body, kind=kind, charset=charset).text.encode()


def test_a_page_of_more_elements_than_are_looked_at_is_cut_and_said() -> None:
    page = read("<span>a </span>" * 200_000, chars=10**6)
    assert page.truncated and len(page.text) > 100_000

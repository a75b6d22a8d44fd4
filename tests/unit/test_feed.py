"""The Radar's feed: three formats in, plain digests out, and what is no feed is said to be none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import feed as reports
from deployments.feed import digests
from tools.errors import ModelShouldKnow

ATOM = b"""<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>Radar</title>
<entry><title>Older</title><updated>2026-11-01T08:00:00Z</updated><summary>First.</summary>
<link href="https://a.example/1"/></entry>
<entry><title>Newer &amp; better</title><updated>2026-11-02T08:00:00+02:00</updated>
<summary type="html">&lt;p&gt;Bold &lt;b&gt;words&lt;/b&gt;&amp;nbsp;here.&lt;/p&gt;&lt;script&gt;x()&lt;/script&gt;
</summary></entry></feed>"""
RSS = b"""<rss version="2.0"><channel><title>Radar</title><item><title>Only one</title><link>https://a.example/2</link>
<pubDate>Mon, 02 Nov 2026 10:00:00 GMT</pubDate><description>Short.</description></item></channel></rss>"""
JSON = json.dumps(
    {
        "version": "https://jsonfeed.org/version/1.1",
        "items": [
            {"id": "1", "title": "Older", "date_published": "2026-11-01T00:00:00Z", "content_text": "First."},
            {
                "id": "2",
                "title": "Newer",
                "date_published": "2026-11-03T00:00:00Z",
                "summary": "Second.",
                "url": "https://a",
            },
            "rubbish",
        ],
    }
).encode()
BOMB = b"""<?xml version="1.0"?><!DOCTYPE f [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">
<!ENTITY e "&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;"><!ENTITY g "&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;">]>
<rss version="2.0"><channel><item><title>&g;</title></item></channel></rss>"""
OUTSIDE = b"""<?xml version="1.0"?><!DOCTYPE f [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<rss version="2.0"><channel><item><title>read &x;</title></item></channel></rss>"""


@pytest.mark.parametrize(
    ("raw", "titles", "summary"),
    [
        (ATOM, ["Newer & better", "Older"], "Bold words here."),
        (RSS, ["Only one"], "Short."),
        (JSON, ["Newer", "Older"], "Second."),
        (b"\n " + JSON, ["Newer", "Older"], "Second."),
    ],
    ids=["atom", "rss", "json", "json-after-blanks"],
)
def test_the_newest_comes_first_without_markup(raw: bytes, titles: list[str], summary: str) -> None:
    found = digests(raw, 5)
    assert [one["title"] for one in found] == titles and found[0]["summary"] == summary
    assert len(digests(raw, 1)) == 1 and all(set(one) == {"title", "published", "summary", "url"} for one in found)


NO_FEED = [
    b"",
    b"hello",
    b"<html><body>no</body></html>",
    b"{",
    b"{}",
    b'{"items": 5}',
    b"\xff\xfe\x00",
    b'{"a":' * 9000,
]


@pytest.mark.parametrize("raw", NO_FEED, ids=range(len(NO_FEED)))
def test_what_is_no_feed_is_said_to_be_none(raw: bytes) -> None:
    with pytest.raises(ModelShouldKnow, match="cannot be read"):
        digests(raw, 3)


@pytest.mark.parametrize("raw", [BOMB, OUTSIDE], ids=["entities-that-grow", "entity-of-a-file"])
def test_entities_of_a_feed_are_not_followed(raw: bytes) -> None:
    try:
        found = digests(raw, 3)
    except ModelShouldKnow:
        return
    assert all("root:" not in one["title"] and len(one["title"]) < 2500 for one in found)


def item(**values: str) -> dict[str, str]:
    raw = json.dumps({"items": [values]}).encode()
    return digests(raw, 1)[0]


def test_a_hostile_text_takes_no_time_and_no_half_character() -> None:
    assert item(title="t", content_text="<" * 900_000)["summary"]
    assert item(title="<b>Bold</b>\n title", content_text="")["title"] == "Bold title"


def test_times_sort_as_times_whatever_their_zone() -> None:
    items = [
        {"title": "older", "date_published": "2026-11-02T01:00:00+02:00"},
        {"title": "newer", "date_published": "2026-11-01T23:30:00Z"},
        {"title": "never", "date_published": "soon"},
    ]
    raw = b"\xef\xbb\xbf" + json.dumps({"items": items}).encode()
    assert [one["title"] for one in digests(raw, 5)] == ["newer", "older", "never"]


def test_a_feed_that_reads_like_a_path_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "feed.xml"
    file.write_bytes(RSS)
    with pytest.raises(ModelShouldKnow, match="cannot be read"):
        digests(str(file).encode(), 3)


def test_the_local_profiles_feed_is_that_of_the_reports() -> None:
    assert json.loads(reports.FEED.read_text()) == reports.feed(), "run python -m benchmarks.feed"
    assert digests(reports.FEED.read_bytes(), 10)

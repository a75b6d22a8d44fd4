"""A feed as digests: Atom and RSS by feedparser, JSON Feed as the JSON it is."""

from __future__ import annotations

import codecs
import html
import io
import json
import re
import time
from datetime import UTC, datetime
from typing import Any

import feedparser

from tools.errors import ModelShouldKnow

_TEXT_CHARS = 2000
_TAG = re.compile(r"<[^<>]*>")
_UNREADABLE = "The Radar's feed cannot be read; it is not Atom, RSS or JSON Feed."


def digests(raw: bytes, limit: int) -> list[dict[str, str]]:
    """The latest items, newest first: `{"title", "published", "summary", "url"}`, texts without markup.

    Raises ModelShouldKnow for what is no feed.
    """
    raw = raw.removeprefix(codecs.BOM_UTF8)
    items = _from_json(raw) if raw.lstrip()[:1] == b"{" else _from_xml(raw)
    return sorted(items, key=lambda item: item["published"], reverse=True)[:limit]


def _from_json(raw: bytes) -> list[dict[str, str]]:
    try:
        feed = json.loads(raw)
        items = [item for item in feed["items"] if isinstance(item, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ModelShouldKnow(_UNREADABLE) from None
    return [_digest(item, "title", "date_published", ("summary", "content_text"), "url") for item in items]


def _from_xml(raw: bytes) -> list[dict[str, str]]:
    stream = io.BytesIO(raw)  # bytes themselves are taken for a path or a URL where they look like one
    feed = feedparser.parse(stream, sanitize_html=True, resolve_relative_uris=False)
    if (feed.bozo and not feed.entries) or not feed.get("version"):
        raise ModelShouldKnow(_UNREADABLE)
    return [_digest(entry | _dated(entry), "title", "date", ("summary",), "link") for entry in feed.entries]


def _dated(entry: Any) -> dict[str, str]:
    when = entry.get("published_parsed") or entry.get("updated_parsed")
    return {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", when) if when else ""}


def _digest(item: Any, title: str, date: str, texts: tuple[str, ...], url: str) -> dict[str, str]:
    text = next((item[name] for name in texts if isinstance(item.get(name), str)), "")
    return {
        "title": _plain(item.get(title)),
        "published": _in_utc(item.get(date)),
        "summary": _plain(text),
        "url": _plain(item.get(url)),
    }


def _in_utc(time: Any) -> str:
    """A time as ISO 8601 in UTC, so that texts sort as times do; empty where there is none."""
    try:
        return datetime.fromisoformat(time).astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (TypeError, ValueError, OverflowError):
        return ""


def _plain(text: Any) -> str:
    """Without tags and doubled white space, and not longer than a digest may be."""
    if not isinstance(text, str):
        return ""
    return " ".join(html.unescape(_TAG.sub(" ", text[: 4 * _TEXT_CHARS])).split())[:_TEXT_CHARS]

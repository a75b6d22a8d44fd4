"""A public page as text. Only a page that the person named, or that such a page links to, is opened: a URL that a model
makes up could carry away what it knows."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from tools import windows
from tools.errors import ModelShouldKnow, ModelShouldRetry, PageRefused, PlatformBroken
from tools.tool import Context, Result, Tool

MOST_URL_CHARS = 2000
_HEADER_CHARS = 400  # of a window's first and last lines
_LEAST_WINDOW_CHARS = 200
_ENDS = r"\s<>\"'`\[\]，。、；：！？）」』】》"
_WRITTEN = re.compile(rf"https?://[^{_ENDS}]+", re.IGNORECASE)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`]*`", re.DOTALL)
# A name without a scheme counts where it can hardly be a file or an attribute: main.rs and self.get are neither.
_BARE = re.compile(
    rf"(?<![\w@./-])(?:www\.(?:[\w-]+\.)+[a-z]{{2,24}}(?:/[^{_ENDS}]*)?|(?:[\w-]+\.)+[a-z]{{2,24}}/[^{_ENDS}]*"
    r"|(?:[\w-]+\.)+(?:com|org|net|edu|gov|eu|hr|de|fr|uk|info)(?![\w/]))(?!@)",
    re.IGNORECASE,
)
_TRAILING = ".,;:!?)]}>…\"'*_"
_NUMBER = re.compile(r"\[?\s*(\d{1,5})\s*\]?")


async def _run(context: Context, arguments: dict[str, Any]) -> Result:
    url = allowed(arguments["url"], context)
    page = await _opened(url, context)
    return Result(shown(page, arguments.get("offset", 0), context.result_chars), page["host"], page["size_bytes"])


def prepare(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """A link's number as the URL it stands for now; a page that was read before is the one that numbers mean again."""
    reading, url = context.reading, arguments.get("url")
    if not isinstance(url, str):
        return arguments
    number = _NUMBER.fullmatch(url.strip())
    if number and 1 <= int(number[1]) <= len(reading.numbered):
        url = reading.numbered[int(number[1]) - 1]
    if page := reading.pages.get(url):
        reading.numbered = page["links"]
    return {**arguments, "url": url}


def allowed(asked: str, context: Context) -> str:
    """The URL as the person or a page wrote it. Raises ModelShouldRetry, ModelShouldKnow."""
    if number := _NUMBER.fullmatch(asked.strip()):  # one that meant a link is its URL by now
        links = context.reading.numbered
        raise ModelShouldRetry(f"There is no link {int(number[1])}; the page opened last has {len(links)}.")
    known = {_plain(one): one for one in (*context.reading.links, *written_in(context.written))}
    if (url := known.get(_plain(asked))) is None:
        raise ModelShouldKnow(
            "Only a URL that the person wrote, or a link of a page opened in this turn, is opened. Ask them for it."
        )
    return url


def written_in(text: str) -> list[str]:
    """The URLs in a text as they stand there; a bare name of a host is taken for https."""
    urls = [_trimmed(one) for one in _WRITTEN.findall(text)]
    bare = [_trimmed(one) for one in _BARE.findall(_WRITTEN.sub(" ", _CODE.sub(" ", text)))]
    return [*urls, *(f"https://{one}" for one in bare)]


def _trimmed(url: str) -> str:
    """Without the marks that end a sentence or a bracket around the URL; a bracket that the URL opened stays."""
    while url and url[-1] in _TRAILING and not (url[-1] == ")" and url.count("(") >= url.count(")")):
        url = url[:-1]
    return url


def _plain(url: str) -> str:
    """For comparing alone: what is opened is the URL as it was written."""
    scheme, separator, rest = url.strip().partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{separator}{host.lower()}{slash}{path}".removesuffix("/")


async def _opened(url: str, context: Context) -> dict[str, Any]:
    """The page, requested once a turn however many windows of it are read, at once or one after another."""
    reading = context.reading
    async with reading.opening.setdefault(url, asyncio.Lock()):
        if error := reading.refused.get(url):
            raise error
        if url not in reading.pages:
            reading.pages[url] = await _requested(url, context)
    page = reading.pages[url]
    reading.tainted = True
    reading.links.update(page["links"])
    reading.numbered = page["links"]
    return page


async def _requested(url: str, context: Context) -> dict[str, Any]:
    if context.web is None:
        raise PlatformBroken("web")
    try:
        async with context.allowance.spending("pages"):
            return await context.web.open(url)
    except PageRefused as error:
        context.reading.refused[url] = error
        raise


def shown(page: dict[str, Any], offset: int, chars: int) -> str:
    """What the model is shown of a page: title, a window of its text, and how to go on. Raises ModelShouldKnow."""
    one = windows.window(page["text"], offset, max(_LEAST_WINDOW_CHARS, chars - _HEADER_CHARS))
    total, more = one["total"], one["next_offset"]
    if not one["text"]:
        raise ModelShouldKnow(f"The page ends at {total}; there is nothing at offset {offset}.")
    end = f"[more at offset {more} of {total}]" if more is not None else f"[the end of {total}]"
    return "\n".join(part for part in (page["title"][:200], one["text"].strip(), end) if part)


TOOL = Tool(
    name="open_page",
    description="Open a public web page that the person named, as text with numbered links.",
    parameters={
        "type": "object",
        "properties": {
            "url": {
                "type": "string",
                "minLength": 1,
                "maxLength": MOST_URL_CHARS,
                "description": "The URL the person wrote, or a link's number.",
            },
            "offset": {"type": "integer", "minimum": 0, "description": "Where to go on."},
        },
        "required": ["url"],
        "additionalProperties": False,
    },
    right="tools.open_page",
    kind="read",
    run=_run,
    outside=True,
    counted=True,
    prepare=prepare,
)

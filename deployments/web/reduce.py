"""A page's bytes to what a reader gets: title, text, links. This runs in the worker process (`extract_worker.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from resiliparse.parse.html import HTMLTree

from deployments.agent.data import clean
from deployments.web.charset import decoded
from deployments.web.links import Links
from deployments.web.media import Kind
from deployments.web.render import Rendered, render

_TITLE_CHARS = 200
_REFRESH_CHARS = 2200
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BARE_LINK = re.compile(r"https?://[^\s<>\"'`{}|\\^]*[^\s<>\"'`{}|\\^.,;:!?()\[\]*_]", re.IGNORECASE)
_REFRESH = re.compile(r"\s*[\d.]*\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']+)", re.IGNORECASE)


@dataclass(frozen=True, repr=False)
class Job:
    """What the worker is told about the bytes that follow."""

    kind: Kind
    charset: str
    url: str
    ports: list[int]
    text_chars: int
    links: int


@dataclass(frozen=True, repr=False)
class Reduced:
    """`links` by number, from 1; `links_left_out` stand in the text without a number."""

    title: str
    text: str
    links: list[str]
    links_left_out: int
    truncated: bool


def reduce(job: Job, body: bytes) -> Reduced:
    """Never fails on what a page holds, only by time and memory."""
    text = decoded(body, job.charset, job.kind)
    title, rendered = _markup(job, text) if job.kind == "html" else ("", _plain(job, text))
    return Reduced(
        title=" ".join(clean(_LINE_ENDS.sub(" ", title)).split())[:_TITLE_CHARS],
        text=clean(_LINE_ENDS.sub("\n", rendered.text)).strip("\n"),
        links=rendered.links.targets,
        links_left_out=rendered.links.left_out,
        truncated=rendered.truncated,
    )


def _markup(job: Job, text: str) -> tuple[str, Rendered]:
    tree = HTMLTree.parse(text)
    base = _attribute(tree, "base[href]", "href")
    if tree.body is None:  # a frameset
        return tree.title or "", Rendered("", _links(job, base), False)
    rendered = render(tree.body, lambda: _links(job, base), job.text_chars)
    return tree.title or "", _with_refresh(rendered, tree)


def _with_refresh(rendered: Rendered, tree: HTMLTree) -> Rendered:
    """A page that would send a browser on says where to; going there is the reader's choice."""
    found = _REFRESH.match(_attribute(tree, "meta[http-equiv=refresh i]", "content")[:_REFRESH_CHARS])
    number = rendered.links.number(found[1]) if found else None
    if number is None:
        return rendered
    return Rendered(
        f"{rendered.text}\n\nThis page sends browsers on to [{number}].", rendered.links, rendered.truncated
    )


def _attribute(tree: HTMLTree, selector: str, name: str) -> str:
    """The attribute of the first element that is found, or ""."""
    found = tree.document.query_selector(selector) if tree.document is not None else None
    return (found.get_attribute(name) or "") if found is not None else ""


def _plain(job: Job, text: str) -> Rendered:
    links, kept = _links(job, ""), text[: job.text_chars]
    numbered = kept if job.kind == "json" else _BARE_LINK.sub(_numberer(links), kept)
    return Rendered(numbered, links, len(text) > len(kept))


def _numberer(links: Links) -> Callable[[re.Match[str]], str]:
    def marked(found: re.Match[str]) -> str:
        number = links.number(found[0])
        return f"{found[0]} [{number}]" if number is not None else found[0]

    return marked


def _links(job: Job, base: str) -> Links:
    return Links(job.url, base, job.ports, job.links)

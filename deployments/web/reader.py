"""One public page, opened once: look up, check, connect, read, reduce, all within one deadline."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field

import httpcore

from deployments.web import resolve, transport, url
from deployments.web.errors import (
    BadUrl,
    PortRefused,
    RedirectRefused,
    TimedOut,
    TooManyRedirects,
)
from deployments.web.extract import Extractor
from deployments.web.fetch import Answer, Fetcher, Redirect
from deployments.web.policy import Allow, PublicOnly
from deployments.web.reduce import Job
from deployments.web.resolve import Resolver, SystemResolver
from deployments.web.settings import WebSettings
from deployments.web.url import Url


@dataclass(frozen=True)
class Page:
    """A page that was read. `links` are the targets of the numbers in `text`, number 1 first. Its repr, which may come
    into a log, says no more than the audit log may."""

    url: str = field(repr=False)  # of the last hop, its host in ASCII form
    host: str
    status: int
    title: str = field(repr=False)
    text: str = field(repr=False)
    links: list[str] = field(repr=False)
    links_left_out: int  # more links than are numbered
    size_bytes: int  # decompressed
    media_type: str  # as declared; "" where nothing was
    truncated: bool  # whether the page goes on where the text ends


class PageReader:
    """Opens pages of the public internet and nothing else. Keeps nothing between two openings."""

    def __init__(
        self,
        settings: WebSettings | None = None,
        resolver: Resolver | None = None,
        allow: Allow | None = None,
        *,
        network: httpcore.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`allow` decides about each address (by default: public, not denied by the settings, not this machine's);
        `network` makes the connections and `tls` holds whom to trust, for tests."""
        self._settings = settings or WebSettings()
        self._resolver = resolver or SystemResolver()
        self._allow = allow or PublicOnly(self._settings.denied)
        self._fetcher = Fetcher(self._settings, tls or transport.trusted(), network or httpcore.AnyIOBackend())
        self._extractor = Extractor(self._settings)

    async def open(self, text: str) -> Page:
        """The page at `text`. Raises WebError, each with a code and a sentence."""
        opening = _Opening(url.parse(text, self._settings.ports))
        seconds = self._settings.deadline_seconds
        try:
            async with asyncio.timeout(seconds):
                answer = await self._follow(opening)
                return await self._page(opening.at, answer)
        except TimeoutError:
            raise TimedOut(opening.at.host, seconds) from None

    async def _follow(self, opening: _Opening) -> Answer:
        for _ in range(self._settings.redirects + 1):
            answer = await self._get(opening.at)
            if isinstance(answer, Answer):
                return answer
            opening.at = self._next(opening.at, answer)
        raise TooManyRedirects(opening.at.host, self._settings.redirects)

    async def _get(self, at: Url) -> Answer | Redirect:
        addresses = await resolve.checked(at, self._resolver, self._allow, self._settings.dns_seconds)
        return await self._fetcher.get(at, addresses)

    def _next(self, at: Url, redirect: Redirect) -> Url:
        try:
            target = url.join(at, redirect.location, self._settings.ports)
        except (BadUrl, PortRefused):
            raise RedirectRefused(at.host) from None
        if (at.scheme, target.scheme) == ("https", "http"):
            raise RedirectRefused(at.host)
        return target

    async def _page(self, at: Url, answer: Answer) -> Page:
        bounds = self._settings
        job = Job(answer.kind, answer.charset, str(at), sorted(bounds.ports), bounds.text_chars, bounds.links)
        reduced = await self._extractor.reduce(at.host, job, answer.body)
        return Page(
            url=str(at),
            host=at.host,
            status=answer.status,
            title=reduced.title,
            text=reduced.text,
            links=reduced.links,
            links_left_out=reduced.links_left_out,
            size_bytes=len(answer.body),
            media_type=answer.media_type,
            truncated=answer.truncated or reduced.truncated,
        )


@dataclass
class _Opening:
    """Where an opening has come to, redirect by redirect."""

    at: Url

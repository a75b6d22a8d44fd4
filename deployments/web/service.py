"""The page reader as a deployment: it verifies for itself who is calling, and logs nothing of what they read."""

from __future__ import annotations

from typing import Any

from configs import folders
from configs.settings import Settings
from deployments import replica
from deployments.identity import IdentityRefused, Verifier
from deployments.web.errors import AddressRefused, DnsFailed, UrlError, WebError
from deployments.web.reader import Page, PageReader
from deployments.web.settings import WebSettings

_BEFORE_SENDING = (UrlError, AddressRefused, DnsFailed)


class WebService:
    """Every opening takes an identity token for the audience `web`. Raises IdentityRefused."""

    def __init__(self, settings: Settings) -> None:
        replica.prepare()
        self._verifier = Verifier("caller", folders.secrets(settings), "web")
        web = settings.web
        bounds = WebSettings(denied=tuple(web.denied), deadline_seconds=web.deadline_seconds, body_bytes=web.page_bytes)
        self._reader = PageReader(bounds)

    async def open(self, token: str, url: str) -> dict[str, Any]:
        """`{"url", "host", "title", "text", "links", "size_bytes", "truncated"}`, or
        `{"refused", "host", "sent"}` with a sentence."""
        identity = self._verifier.verify(token)
        if "tools.open_page" not in identity.rights:
            raise IdentityRefused("right_missing")
        try:
            return _plain(await self._reader.open(url))
        except WebError as error:
            return {"refused": str(error), "host": error.host, "sent": not isinstance(error, _BEFORE_SENDING)}

    async def check_health(self) -> None:
        """Asked by Serve; it answers as long as it runs."""


def _plain(page: Page) -> dict[str, Any]:
    return {
        "url": page.url,
        "host": page.host,
        "title": page.title,
        "text": page.text,
        "links": page.links,
        "size_bytes": page.size_bytes,
        "truncated": page.truncated,
    }

"""The links of a page, by number, and nothing that cannot be opened.

The number is all that a model gives back, so what it stands for is fixed here: absolute, http or https, each target once.
Opening one goes through every check again.
"""

from __future__ import annotations

from collections.abc import Collection

from deployments.web.errors import WebError
from deployments.web.url import Url, join, parse


class Links:
    """Numbers targets from 1 in the order of the text, at most `limit` of them."""

    def __init__(self, page: str, base: str, ports: Collection[int], limit: int) -> None:
        self.left_out = 0
        self._ports, self._limit = ports, limit
        self._page = parse(page, ports)
        self._base = self._joined(self._page, base) or self._page
        self._numbers: dict[str, int] = {}

    @property
    def targets(self) -> list[str]:
        return list(self._numbers)

    def number(self, reference: str) -> int | None:
        """The number of what `reference` leads to; None for a place in the page itself and what cannot be opened."""
        target = None if reference.strip()[:1] in ("", "#") else self._joined(self._base, reference)
        if target is None or ("#" in reference and target == self._page):
            return None
        known = self._numbers.get(str(target))
        if known is None and len(self._numbers) >= self._limit:
            self.left_out += 1
            return None
        return self._numbers.setdefault(str(target), len(self._numbers) + 1)

    def _joined(self, base: Url, reference: str) -> Url | None:
        try:
            return join(base, reference, self._ports)
        except WebError:
            return None

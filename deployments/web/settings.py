"""What bounds one opening of a page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WebSettings:
    """Every number is a bound that holds whatever the page does."""

    ports: frozenset[int] = frozenset({80, 443})  # of http and of https alike
    denied: tuple[
        str, ...
    ] = ()  # networks that look public and are one's own, like "203.0.113.0/24"; nothing relaxes them
    deadline_seconds: float = 20.0  # of a whole opening: names, connections, redirects, body and reduction
    dns_seconds: float = 5.0  # of one lookup
    connect_seconds: float = 5.0  # of one address; the next is tried after it
    redirects: int = 5  # followed; 0 follows none
    body_bytes: int = 8 * 1024 * 1024  # decompressed; what comes after is left unread and the page marked as truncated
    header_bytes: int = 32 * 1024  # of the header lines of one answer
    header_lines: int = 100
    text_chars: int = 1_000_000  # of readable text; the rest is cut and the page marked as truncated
    links: int = 2_000  # numbered; further links stand in the text without a number
    reduce_seconds: float = 6.0  # in the worker process
    reduce_memory_bytes: int = 1024 * 1024 * 1024  # its address space
    reduce_parallel: int = 2  # worker processes at a time; more openings wait, within their deadline
    user_agent: str = "recall-serve (page reader)"

"""A body as it comes, decompressed without ever holding more than what is kept.

A small gzip stream can hold gigabytes, and HTTP clients decode whole chunks before anyone can count. Here output is drawn
with a limit, so that a bomb costs no more than a page of that size.
"""

from __future__ import annotations

import zlib

from deployments.web.errors import BadResponse, TooLarge

_GZIP = 31  # zlib's window bits for the gzip format alone
_MEMBERS = 64  # a gzip file may be several one after another; thousands of empty ones only burn time


class Body:
    """Takes chunks of one answer, keeps the first `limit_bytes` of what they decode to."""

    def __init__(self, host: str, limit_bytes: int, gzip: bool) -> None:
        self.data = bytearray()
        self.truncated = False
        self._host, self._limit_bytes, self._gzip = host, limit_bytes, gzip
        self._encoded_bytes = self._members = 0
        self._member: zlib._Decompress | None = None

    def feed(self, chunk: bytes) -> bool:
        """Whether more is wanted. Raises BadResponse, TooLarge."""
        self._encoded_bytes += len(chunk)
        if self._gzip:
            self._inflate(chunk)
        else:
            self._keep(chunk)
        if self._encoded_bytes > self._limit_bytes and not self.truncated:
            raise TooLarge(self._host)
        return not self.truncated

    def end(self) -> bytes:
        """What was kept. Raises BadResponse where the compressed data stopped in the middle."""
        if self._member is not None and not self.truncated:
            raise BadResponse(self._host, "its compressed data is not complete")
        return bytes(self.data)

    def _keep(self, data: bytes) -> None:
        room = self._limit_bytes - len(self.data)
        self.data += data[:room]
        self.truncated = self.truncated or len(data) > room

    def _inflate(self, chunk: bytes) -> None:
        while chunk and not self.truncated:
            chunk = self._inflate_member(chunk)

    def _inflate_member(self, chunk: bytes) -> bytes:
        """What of `chunk` stands after the member that is being read, or is still to be drawn from it."""
        member = self._member or self._next_member()
        try:
            self._keep(member.decompress(chunk, self._limit_bytes + 1 - len(self.data)))
        except zlib.error:
            raise BadResponse(self._host, "its compressed data is broken") from None
        if member.eof:
            self._member = None
            return member.unused_data
        return member.unconsumed_tail

    def _next_member(self) -> zlib._Decompress:
        self._members += 1
        if self._members > _MEMBERS:
            raise BadResponse(self._host, "its compressed data is in too many pieces")
        self._member = zlib.decompressobj(_GZIP)
        return self._member

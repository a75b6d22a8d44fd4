"""What kind of thing an answer is: markup to reduce, text to show, or neither.

The declared type decides and the bytes may only overrule it towards refusal: an archive sent as `text/html` is not shown,
and HTML sent as `image/png` is not read.
"""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["html", "xml", "json", "text"]

_HTML = ("text/html", "application/xhtml+xml")
_JSON = ("application/json", "application/x-ndjson", "application/jsonl", "application/manifest+json")
_XML = ("text/xml", "application/xml")
_TEXT = tuple(
    f"application/{name}"
    for name in (
        *("javascript", "x-javascript", "ecmascript", "typescript", "yaml", "x-yaml", "toml", "sql", "graphql", "x-sh"),
        *("x-httpd-php", "x-tex", "x-subrip", "mbox"),
    )
)
_HEADER_CHARS = 300
_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,100}", re.ASCII)
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([\w.:+-]{1,40})""", re.IGNORECASE | re.ASCII)
_MARKUP = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,500}?-->\s*)?<(?:!doctype html|html|head|body|title|meta|div|p|h1|a|table)\b",
    re.IGNORECASE | re.DOTALL,
)
_MAGIC = (
    *(
        b"%PDF-",
        b"PK\x03\x04",
        b"\x7fELF",
        b"\x89PNG",
        b"GIF8",
        b"\xff\xd8\xff",
        b"\x1f\x8b",
        b"7z\xbc\xaf",
        b"Rar!\x1a",
    ),
    *(b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"OggS", b"ID3", b"MZ\x90", b"wOF2", b"{\\rtf"),
)
_BOMS = (b"\xff\xfe", b"\xfe\xff")


def declared(header: str) -> tuple[str, str]:
    """The media type in lower case and the charset of a Content-Type header; "" where there is none."""
    header = header.strip()[:_HEADER_CHARS]  # blanks without end would make the patterns slow
    kind, charset = _TYPE.match(header), _CHARSET.search(header)
    return kind[0].lower() if kind else "", charset[1].lower() if charset else ""


def kind_of(media_type: str) -> Kind | None:
    """How a declared type is shown; None where it is not."""
    if media_type in _HTML:
        return "html"
    if media_type in _JSON or media_type.endswith("+json"):
        return "json"
    if media_type in _XML or (media_type.endswith("+xml") and not media_type.startswith(("image/", "model/"))):
        return "xml"
    return "text" if media_type.startswith("text/") or media_type in _TEXT else None


def sniffed(body: bytes) -> Kind:
    """The kind of a body whose type nobody declared."""
    return "html" if _MARKUP.match(body[:2000]) else "text"


def is_binary(body: bytes, charset: str) -> bool:
    """Whether `body` is no text whatever its type says: a known file's first bytes, or NULs where none can be."""
    if body.startswith(_MAGIC):
        return True
    wide = charset.startswith(("utf-16", "utf16", "unicode")) or body.startswith(_BOMS)
    return not wide and b"\0" in body

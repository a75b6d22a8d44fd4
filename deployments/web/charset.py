"""Bytes to text: a byte order mark, then the server's word, then the page's own, then a guess.

Labels mean what browsers take them for (WHATWG: `latin1` is windows-1252, `utf-7` is nothing). What does not decode becomes
U+FFFD; it never fails. Guessing is uchardet's, on the passages that are not ASCII, after a try at UTF-8.
"""

from __future__ import annotations

import codecs
import re

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from deployments.web.media import Kind

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEAD_BYTES = 4096
_GUESS_BYTES = 64 * 1024
_COMMENT = re.compile(rb"<!--.*?(?:-->|$)", re.DOTALL)
_META = re.compile(rb"""<meta\s[^>]{0,500}?charset\s*=\s*["']?\s*([\w.:+-]{1,40})""", re.IGNORECASE)
_XML = re.compile(rb"""\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([\w.:+-]{1,40})""")
_PASSAGE = re.compile(rb"[^<>\r\n]+")
_FOREIGN = re.compile(rb"[\x80-\xff]")
_BEFORE_BYTES, _AFTER_BYTES = 100, 4000
_SUPERSETS = {"gbk": "gb18030", "gb2312": "gb18030", "shift_jis": "cp932", "euc-kr": "cp949"}


def decoded(body: bytes, label: str, kind: Kind) -> str:
    """`body` as text; `label` is the charset of its Content-Type header, or ""."""
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    return body.decode(_known(label) or _own_word(body, kind) or _guess(body), "replace")


def _known(label: str) -> str | None:
    """The codec of a label that the web knows."""
    encoding = map_encoding_to_html5(label.strip(), fallback_utf8=False) if label else None
    encoding = _SUPERSETS.get(encoding or "", encoding)
    try:
        return codecs.lookup(encoding).name if encoding else None
    except LookupError:
        return None


def _own_word(body: bytes, kind: Kind) -> str | None:
    """What a page says in its first bytes. That they could be read in ASCII rules UTF-16 out."""
    found = _XML.match(body[:_HEAD_BYTES])
    if found is None and kind == "html":
        found = _META.search(_COMMENT.sub(b"", body[:_HEAD_BYTES]))
    encoding = _known(found[1].decode("ascii", "replace")) if found else None
    return "utf-8" if encoding and encoding.startswith("utf-16") else encoding


def _guess(body: bytes) -> str:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)  # a character may be cut at the very end
    except UnicodeDecodeError:
        return _known(detect_encoding(_foreign_passages(body)) or "") or "cp1252"
    return "utf-8"


def _foreign_passages(body: bytes) -> bytes:
    """The passages that are not ASCII, which alone tell one encoding from another."""
    kept, size = [], 0
    for passage in _PASSAGE.finditer(body):
        first = _FOREIGN.search(body, passage.start(), passage.end())
        if first is not None:
            since = max(passage.start(), first.start() - _BEFORE_BYTES)
            kept.append(body[since : min(passage.end(), first.start() + _AFTER_BYTES)])
            size += len(kept[-1])
        if size > _GUESS_BYTES:
            break
    return b"\n".join(kept)

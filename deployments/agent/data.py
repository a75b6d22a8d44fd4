"""What was read is data: recalled entries, pages, tool results.

Each item stands in a frame with a fresh nonce, which its text cannot know, and control tokens of chat models can never
arise from it. This makes injection harder, not impossible; what a turn may do is decided by rules elsewhere.
"""

from __future__ import annotations

import re
import secrets
import unicodedata

_TAG = r"/?(?:tool\w*|function\w*|think|s|bos|eos|pad|unk|mask|image|\w+_(?:sep|name)|(?:start|end|im|fim)_\w+|SYS)>"
_BRACKET = (
    r"/?(?:INST|AVAILABLE_TOOLS|(?:TOOL|SYSTEM|MODEL|IMG|AUDIO)(?:_\w+)?|PREFIX|MIDDLE|SUFFIX|ARGS|CALL_ID|THINK)\]"
)
_CONTROL_TOKEN = re.compile(rf"<(?=/?[|｜]|\w+\|>|{_TAG})|<<(?=SYS|/SYS)|\[(?={_BRACKET})")
_VARIATION = re.compile("[\U000e0100-\U000e01ef]")  # 240 marks that show nothing and can carry any text
_UNSEEN = ("Cc", "Cf", "Cs", "Co")  # not Cn: an emoji may be newer than this Python's tables
_KEPT_FORMATS = "\u200c\u200d"  # joiners that Persian, Hindi and emoji need


def neutral(text: str) -> str:
    """`text` with a space inside everything that a chat template would read as a control token."""
    return _CONTROL_TOKEN.sub(lambda found: found[0] + " ", text)


def clean(text: str) -> str:
    """`text` without control and invisible formatting characters: ANSI, bidi overrides, tags, zero widths."""
    text = _VARIATION.sub("", text)
    return "".join(char for char in text if char in "\n\t" + _KEPT_FORMATS or unicodedata.category(char) not in _UNSEEN)


def framed(text: str) -> str:
    """`text` as data, between marks that no one could foresee."""
    nonce = secrets.token_hex(4)
    return f"[data {nonce}]\n{neutral(clean(text))}\n[end {nonce}]"


def inline(text: str) -> str:
    """`text` as data on one line."""
    nonce = secrets.token_hex(2)
    return f"{nonce}: {neutral(clean(' '.join(text.split())))} :{nonce}"

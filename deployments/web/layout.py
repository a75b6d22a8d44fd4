"""Text as it is laid out: blanks collapse, blocks stand on lines of their own, a bullet waits for its text."""

from __future__ import annotations

import re

_BLANKS = re.compile(r"[ \t\n\r\f\v\u00a0\u0085\u2028\u2029]+")
_MANY_LINES = re.compile(r"\n(?:[ \t]*\n)+")


class Layout:
    """Takes text and breaks in reading order; keeps at most `limit_chars`."""

    def __init__(self, limit_chars: int) -> None:
        self.written_chars = 0
        self.cut = False  # whether something did not fit
        self.preformatted = 0  # depth of elements whose blanks count
        self._limit_chars = limit_chars
        self._pieces: list[str] = []
        self._prefix = ""
        self._breaks = 0  # line breaks wanted before what follows
        self._space = self._marked = False
        self._fresh = True  # at the start of a line

    @property
    def on_a_line(self) -> bool:
        return not self._fresh and not self._breaks

    def add(self, text: str) -> None:
        if self.preformatted:
            self._write(text.replace("\r\n", "\n"))
            return
        collapsed = _BLANKS.sub(" ", text)
        words = collapsed.strip(" ")
        self._space = self._space or collapsed.startswith(" ")
        if words:
            apart = self._space or (self._marked and words[0].isalnum())
            self._write(" " + words if apart and self.on_a_line else words)
            self._space = collapsed.endswith(" ")

    def mark(self, text: str) -> None:
        """Puts `text` right after what was written last, even where a line was to end."""
        self._pieces.append(text)
        self.written_chars += len(text)
        self._marked = True

    def line(self) -> None:
        """What follows begins on a new line."""
        self._breaks = max(self._breaks, 1)

    def apart(self) -> None:
        """What follows stands after a blank line, unless it is the first thing after a bullet."""
        self._breaks = max(self._breaks, 1 if self._prefix else 2)

    def newline(self) -> None:
        """One more line break."""
        self._breaks = min(self._breaks + 1, 2)

    def prefix(self, text: str) -> None:
        """The line that comes begins with `text`, if anything comes."""
        self._prefix = text

    def result(self) -> str:
        lines = "".join(self._pieces).strip("\n")
        return _MANY_LINES.sub("\n\n", lines).rstrip()

    def _write(self, text: str) -> None:
        if self._breaks and self._pieces:
            text = "\n" * (self._breaks - self._pieces[-1].endswith("\n")) + self._prefix + text
        else:
            text = self._prefix + text
        room = self._limit_chars - self.written_chars
        self.cut = self.cut or len(text) > room
        self._pieces.append(text[:room])
        self.written_chars += len(text[:room])
        self._prefix, self._breaks, self._space, self._marked, self._fresh = "", 0, False, False, False

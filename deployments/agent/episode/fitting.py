"""A session may be longer than a budget or a window. Only the tier's own count tells, so sizes are found by halving:
a few counts, however many messages there are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from deployments.agent.episode.transcript import Line

Fits = Callable[[Sequence[Line]], Awaitable[bool]]


async def newest(lines: Sequence[Line], fits: Fits) -> tuple[list[Line], dict[str, int]]:
    """The newest lines that fit together, and how many older `messages` that leaves out. Where not even the last one
    fits its end does, and it counts as one of the `cut_messages`."""
    kept = await _most(len(lines), lambda size: fits(lines[len(lines) - size :]))
    if kept or not lines:
        return list(lines[len(lines) - kept :]), {"messages": len(lines) - kept, "cut_messages": 0}
    last = lines[-1]
    size = await _most(len(last.text), lambda size: fits([Line(last.role, last.text[-size:])]))
    end = [Line(last.role, last.text[-size:])] if size else []
    return end, {"messages": len(lines) - len(end), "cut_messages": len(end)}


async def parts(lines: Sequence[Line], fits: Fits) -> list[list[Line]]:
    """All lines in order, in parts that fit; a line too long for one is cut. Empty where nothing fits at all."""
    rest, found = list(lines), []
    while rest:
        taken = await _most(len(rest), lambda size: fits(rest[:size]))  # noqa: B023 (awaited at once)
        if not taken:
            head, tail = await _cut(rest[0], fits)
            if not head.text:
                return []
            rest[:1], taken = [head, *([tail] if tail.text else [])], 1
        found.append(rest[:taken])
        rest = rest[taken:]
    return found


async def _cut(line: Line, fits: Fits) -> tuple[Line, Line]:
    """The longest beginning of a line that fits, ended between words where there are any, and what follows it."""
    size = await _most(len(line.text), lambda size: fits([Line(line.role, line.text[:size])]))
    size = line.text.rfind(" ", size // 2, size) + 1 or size
    return Line(line.role, line.text[:size].strip()), Line(line.role, line.text[size:].strip())


async def _most(limit: int, fits: Callable[[int], Awaitable[bool]]) -> int:
    """The greatest size up to `limit` that fits, 0 where none does; what is smaller than a size that fits, fits."""
    if not limit or await fits(limit):
        return limit
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if await fits(middle) else (low, middle)
    return low

"""What the service and the launcher tell each other; types alone, so that the launcher need not import it."""

from __future__ import annotations

from typing import TypedDict


class Order(TypedDict):
    """One run. Descriptors are numbers in the launcher."""

    service: int
    """The process that must live for the run to live."""
    uid: int
    gid: int
    unreachable: list[str]
    """Closed folders to lay an open one over; only root has any."""
    sources: list[str]
    """What must be reachable below them."""
    bubblewrap: str
    arguments: int
    command: list[str]
    passed: list[int]
    """Descriptors that bubblewrap takes over, `arguments` among them."""
    status_read: int
    let_go: int
    """Written to when the program may start; the service holds it too, so that its end is no sign."""
    report: int
    leash: int
    wall_seconds: float
    cpu_seconds: int
    memory_bytes: int
    address_space_bytes: int
    work_bytes: int
    work_files: int
    file_bytes: int
    processes: int
    open_files: int


class Report(TypedDict):
    """How it ended."""

    started: bool
    exit_code: int | None
    """None where the run was killed."""
    reason: str | None
    """Why it was killed: `wall clock`, `memory`, `files`, or `stopped` by the service."""
    fault: str
    """What went wrong before the program could start."""

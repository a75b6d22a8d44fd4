"""The process that reads what strangers wrote: job and bytes in, text and links out, then it ends.

Reducing markup can take any time and memory, and a parser written in C can have faults. Here it has limits of its own, no
secrets, and can be killed. Started as `python -m deployments.web.extract_worker`.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict

from deployments.web.reduce import Job, reduce

OUT_OF_BOUNDS = 3  # its exit status where memory or depth did not suffice
_OPEN_FILES = 16


def main() -> None:
    """One JSON line with the limits and the job, then the page's bytes, from stdin; one JSON object to stdout."""
    order = json.loads(sys.stdin.buffer.readline())
    _limit(order["seconds"], order["memory_bytes"])
    try:
        reduced = reduce(Job(**order["job"]), sys.stdin.buffer.read())
    except (MemoryError, RecursionError):
        sys.exit(OUT_OF_BOUNDS)
    sys.stdout.buffer.write(json.dumps(asdict(reduced)).encode())


def _limit(seconds: int, memory_bytes: int) -> None:
    for what, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main()

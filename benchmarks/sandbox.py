"""What the sandbox costs a program that only says hello: `python -m benchmarks.sandbox`.

The same interpreter runs the same program bare and behind all walls, in turn, so that both meet the same machine.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import click

from deployments.sandbox.run import Sandbox

HELLO = "print('hello')"


async def _bare() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", HELLO, stdout=asyncio.subprocess.PIPE, env={}
    )
    out, _ = await process.communicate()
    assert out == b"hello\n"


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    began = time.monotonic()
    await work()
    return (time.monotonic() - began) * 1000


async def _measure(rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each run, bare and sandboxed."""
    async with Sandbox() as sandbox:

        async def sandboxed() -> None:
            assert (await sandbox.run(HELLO)).stdout == "hello\n"

        pairs = [(await _timed(_bare), await _timed(sandboxed)) for _ in range(rounds)]
    bare, walled = zip(*pairs, strict=True)
    return list(bare), list(walled)


@click.command()
@click.option("--rounds", default=30, show_default=True, help="Runs of each, in turn.")
def main(rounds: int) -> None:
    """Time a hello from the sandbox beside one from Python itself."""
    bare, walled = asyncio.run(_measure(rounds))
    for name, times in (("python alone", bare), ("in the sandbox", walled)):
        click.echo(f"{name:<15} median {statistics.median(times):5.0f} ms, least {min(times):5.0f} ms")
    beyond = statistics.median(one - other for one, other in zip(walled, bare, strict=True))
    click.echo(f"{'beyond python':<15} median {beyond:5.0f} ms")


if __name__ == "__main__":
    main()

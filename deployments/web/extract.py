"""Has a page reduced in a process of its own, which is killed when it takes too long.

A coroutine's timeout cannot stop a parser that is busy, and one page must not hold up the others. Starting Python and the
parser takes about 50 ms, so no process is kept: none lives to see a second page.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from dataclasses import asdict
from pathlib import Path

from deployments.web.errors import TooComplex, Unreadable
from deployments.web.extract_worker import OUT_OF_BOUNDS
from deployments.web.reduce import Job, Reduced
from deployments.web.settings import WebSettings

_ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-sP", "-X", "utf8", "-m", "deployments.web.extract_worker")
_BYTES_A_CHAR = 6  # JSON writes what is not ASCII as \uXXXX
_LINK_BYTES = 2100
_PIECE_BYTES = 64 * 1024
_END_SECONDS = 1.0


class Extractor:
    """Reduces pages, a few at a time."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._places = asyncio.Semaphore(settings.reduce_parallel)
        self._answer_bytes = _BYTES_A_CHAR * (settings.text_chars + 10_000) * 2 + _LINK_BYTES * settings.links

    async def reduce(self, host: str, job: Job, body: bytes) -> Reduced:
        """Raises TooComplex, Unreadable."""
        async with self._places:
            process = await asyncio.create_subprocess_exec(
                *_COMMAND,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                cwd="/",
                env={"PYTHONPATH": str(_ROOT)},
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(self._settings.reduce_seconds):
                    answer = await self._exchange(host, process, self._order(job), body)
                    status = await process.wait()
            except TimeoutError:
                raise TooComplex(host) from None
            finally:
                await _end(process)
        return self._read(host, status, answer)

    def _order(self, job: Job) -> bytes:
        seconds = math.ceil(self._settings.reduce_seconds)
        order = {"seconds": seconds, "memory_bytes": self._settings.reduce_memory_bytes, "job": asdict(job)}
        return json.dumps(order).encode() + b"\n"

    async def _exchange(self, host: str, process: Process, order: bytes, body: bytes) -> bytes:
        feeding = asyncio.create_task(_feed(process, order, body))
        try:
            return await self._listen(host, process)
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def _listen(self, host: str, process: Process) -> bytes:
        assert process.stdout is not None
        answer = bytearray()
        while piece := await process.stdout.read(_PIECE_BYTES):
            answer += piece
            if len(answer) > self._answer_bytes:
                raise Unreadable(host)
        return bytes(answer)

    def _read(self, host: str, status: int, answer: bytes) -> Reduced:
        if status < 0 or status == OUT_OF_BOUNDS:  # a signal: processor time, or the parser's own end
            raise TooComplex(host)
        try:
            reduced = Reduced(**json.loads(answer))
        except (ValueError, TypeError):
            raise Unreadable(host) from None
        if not reduced.text.strip():
            raise Unreadable(host)
        return reduced


async def _feed(process: Process, order: bytes, body: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended before it read all; its status says why
        process.stdin.write(order)
        for place in range(0, len(body), _PIECE_BYTES):  # a pipe's buffer would hold the whole body a second time
            process.stdin.write(body[place : place + _PIECE_BYTES])
            await process.stdin.drain()
        process.stdin.close()


async def _end(process: Process) -> None:
    """Kills what is left of a worker and waits for it, not for long."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            assert process.stdout is not None
            await process.stdout.read()  # asyncio takes a process for ended only when its pipes are empty
            await process.wait()

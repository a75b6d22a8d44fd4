"""The worker process (H01, H02, C01): bounded time and memory, killed when late, and pages of every size come out."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.web import extract
from deployments.web.errors import TooComplex, Unreadable
from deployments.web.extract import Extractor
from deployments.web.reduce import Job, Reduced
from deployments.web.settings import WebSettings
from tests import processes
from tests.web.conftest import Web, response
from tests.web.test_charset import CROATIAN
from tools.windows import window

PARAGRAPH = b"<p>Some words in a paragraph with a <a href=/x>link</a> and others. " + b"lorem ipsum " * 20 + b"</p>\n"


def job(**values: Any) -> Job:
    return Job(
        **{
            "kind": "html",
            "charset": "",
            "url": "http://good.example/",
            "ports": [80],
            "text_chars": 10**6,
            "links": 1000,
        }
        | values
    )


async def reduced(body: bytes, **bounds: Any) -> Reduced:
    return await Extractor(WebSettings(**bounds)).reduce("good.example", job(), body)


@pytest.fixture(autouse=True)
def mark() -> Iterator[None]:
    with processes.marked():
        yield


def workers() -> set[int]:
    return set(processes.started())


@pytest.mark.parametrize("depth", [260, 5_000, 100_000])
@pytest.mark.parametrize("tag", ["div", "b", "ul", "table"])
async def test_deep_markup_keeps_its_text_or_says_that_it_is_too_complex(tag: str, depth: int) -> None:
    """H01: never a loss without notice."""
    body = b"<p>first</p>" + f"<{tag}>".encode() * depth + b"deepest"
    began = time.monotonic()
    try:
        page = await reduced(body, reduce_seconds=1.5)
        assert "first" in page.text and ("deepest" in page.text or page.truncated)
    except TooComplex:
        assert depth == 100_000
    assert time.monotonic() - began < 2.5


BUSY = {
    "1M-attributes": b"<p " + b" ".join(b"a%d=1" % n for n in range(1_000_000)) + b">text</p>",
    "1M-links": b"<a href=/x>x" * 600_000,
    "one-text-node": b"word " * 1_600_000,
    "one-attribute": b'<p title="' + b"x" * 8_000_000 + b'">text</p>',
    "one-href": b'<a href="' + b"x" * 8_000_000 + b'">text</a>',
    "one-style": b'<p style="' + b"a:b;" * 2_000_000 + b'">text</p>',
    "unclosed": b"<b><i><a href=x>" * 100_000 + b"text",
    "comments": b"<!--" * 2_000_000,
    "entities": b"&amp;" * 1_600_000,
    "tables": b"<table><tr><td>" * 100_000 + b"text",
    "forms": b"<form><select><option>" * 200_000,
    "spans": b"<span>ab </span>" * 400_000,
    "metas": b"<meta charset=" * 500_000,
    "spaces": b"<pre>" + b" \n" * 4_000_000 + b"x",
    "blanks": b"<pre>" + b" " * 4_000_000 + b"x",
    "blank-lines": b"<pre>x" + b"\n" * 4_000_000 + b"x",
    "refresh": b'<meta http-equiv=refresh content="' + b" " * 4_000_000 + b'"><p>text',
    "links-in-text": b"<p>" + b"https://a.example/" * 400_000,
}


@pytest.mark.parametrize("name", BUSY)
async def test_busy_markup_ends_in_time(name: str) -> None:
    """H02."""
    began = time.monotonic()
    try:
        page = await reduced(BUSY[name], reduce_seconds=1)
        assert page.text and len(page.text) <= 10**6
    except (TooComplex, Unreadable):
        pass
    assert time.monotonic() - began < 2.5
    assert not workers()


@pytest.mark.parametrize("piece", [b"https://a.example/", b"http://", b"https://a.example/x(((...]]]", b"\r", b"word "])
async def test_busy_plain_text_ends_in_time(piece: bytes) -> None:
    body = piece * (8_000_000 // len(piece))
    began = time.monotonic()
    try:
        page = await Extractor(WebSettings(reduce_seconds=3)).reduce("good.example", job(kind="text"), body)
        assert len(page.text) <= 10**6 + 10
    except (TooComplex, Unreadable):
        pass
    assert time.monotonic() - began < 4


async def test_five_megabytes_come_out_window_by_window(web: Web) -> None:
    body = b"<title>Long</title><main>" + PARAGRAPH * (5_000_000 // len(PARAGRAPH))
    page = await web.get(response(body), deadline_seconds=10, text_chars=10_000_000)
    assert (page.title, page.truncated, page.size_bytes) == ("Long", False, len(body))
    assert page.text.count("link [1]") == 5_000_000 // len(PARAGRAPH) and page.links == ["http://good.example/x"]
    assert window(page.text, len(page.text) - 40, 100)["next_offset"] is None


async def test_five_megabytes_beyond_the_bound_are_cut_and_said(web: Web) -> None:
    page = await web.get(response(b"<main>" + PARAGRAPH * (5_000_000 // len(PARAGRAPH))), deadline_seconds=10)
    assert page.truncated and 900_000 < len(page.text) <= 1_010_000


async def test_three_thousand_links_are_read(web: Web) -> None:
    page = await web.get(response(b"".join(b"<li><a href=/%d>link</a>" % n for n in range(3000))))
    assert (len(page.links), page.links_left_out) == (2000, 1000)
    assert page.links[1233] == "http://good.example/1233"
    assert "link [1234]" in window(page.text, page.text.index("[1230]"), 200)["text"], "W04"


@pytest.mark.parametrize("encoding", ["iso-8859-2", "windows-1250", "utf-8"])
@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("type", ["text/html", "text/plain"])
async def test_croatian_comes_out_right(type: str, labelled: bool, encoding: str, web: Web) -> None:
    """C01."""
    page = await web.get(response(CROATIAN.encode(encoding), type=f"{type}; charset={encoding}" if labelled else type))
    assert page.text == CROATIAN


async def test_a_worker_that_is_late_is_killed() -> None:
    with pytest.raises(TooComplex) as error:
        await reduced(b"<p " + b" ".join(b"a%d=1" % n for n in range(300_000)) + b">", reduce_seconds=0.3)
    assert error.value.args == ("good.example",) and not workers()


async def test_a_caller_that_leaves_takes_its_worker_along() -> None:
    extractor = Extractor(WebSettings())
    task = asyncio.create_task(
        extractor.reduce("good.example", job(), b"<p " + b" ".join(b"a%d=1" % n for n in range(300_000)) + b">")
    )
    async with asyncio.timeout(5):
        while not workers():
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not workers()
    assert (await extractor.reduce("good.example", job(), b"<p>next")).text == "next", "its place is free again"


async def test_memory_is_bounded() -> None:
    with pytest.raises((TooComplex, Unreadable)):
        await reduced(b"<p>a</p>" * 1_000_000, reduce_memory_bytes=120 * 2**20)
    assert (await reduced(b"<p>a</p>" * 1000, reduce_memory_bytes=120 * 2**20)).text


async def test_few_workers_run_at_once() -> None:
    extractor, most = Extractor(WebSettings(reduce_parallel=2)), 0
    tasks = [asyncio.create_task(extractor.reduce("good.example", job(), PARAGRAPH)) for _ in range(8)]
    while not all(task.done() for task in tasks):
        most = max(most, len(workers()))
        await asyncio.sleep(0.005)
    assert {(await task).links[0] for task in tasks} == {"http://good.example/x"} and most <= 2


def program(tmp_path: Path, code: str) -> tuple[str, ...]:
    (tmp_path / "worker.py").write_text(code)
    return (sys.executable, str(tmp_path / "worker.py"))


@pytest.mark.parametrize(
    "code",
    ["print('no json')", "print('[]')", "print('{\"title\": 1}')", "import sys; sys.exit(1)", "1/0", "",
     "import sys; sys.stdout.write('x' * 10**8)",
     "print('{\"title\":\"\",\"text\":\" \",\"links\":[],\"links_left_out\":0,\"truncated\":false}')"],
    ids=["text", "list", "fields", "status", "exception", "nothing", "flood", "blank"],
)  # fmt: skip
async def test_a_worker_that_answers_nonsense_is_an_unreadable_page(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extract, "_COMMAND", program(tmp_path, code))
    with pytest.raises(Unreadable):
        await reduced(b"<p>secret" * 100_000, text_chars=1000)
    assert not workers()


@pytest.mark.parametrize("signal", [6, 9, 11, 24])
async def test_a_worker_that_is_brought_down_is_a_page_too_complex(
    signal: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), {signal})"
    monkeypatch.setattr(extract, "_COMMAND", program(tmp_path, code))
    with pytest.raises(TooComplex):
        await reduced(b"<p>x")


async def test_a_worker_has_no_secrets_and_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECALL_TOKEN", "hunter2")
    seen = tmp_path / "seen"
    monkeypatch.setattr(
        extract,
        "_COMMAND",
        program(tmp_path, f"import os, json\nopen({str(seen)!r}, 'w').write(json.dumps(dict(os.environ)))"),
    )
    with pytest.raises(Unreadable):
        await reduced(b"<p>x")
    assert set(json.loads(seen.read_text())) <= {"PYTHONPATH", "LC_CTYPE"}


def test_the_limits_of_a_worker_hold() -> None:
    names = ["AS", "CPU", "FSIZE", "CORE", "NPROC"]
    code = f"""
import resource
from deployments.web.extract_worker import _limit
_limit(3, 2**30)
print([resource.getrlimit(getattr(resource, 'RLIMIT_' + name)) for name in {names}])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=extract._ROOT)
    assert ran.stdout.strip() == str([(2**30, 2**30), (3, 3), (0, 0), (0, 0), (0, 0)])
    assert resource.getrlimit(resource.RLIMIT_FSIZE) != (0, 0), "this process keeps its own"

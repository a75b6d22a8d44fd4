"""Secrets are made once, closed to others, and never half there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from configs import private


def test_a_secret_is_made_once_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert private.made_once(path, lambda: "first") == private.made_once(path, lambda: "second") == b"first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_write_that_is_cut_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"

    def cut(descriptor: int) -> None:
        raise OSError("no space")

    monkeypatch.setattr("os.fsync", cut)
    with pytest.raises(OSError, match="no space"):
        private.made_once(path, lambda: "half")
    assert not path.exists(), "an empty secret would be used from then on"

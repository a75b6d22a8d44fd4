"""What a profile needs is told before anything is fetched or started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from configs.errors import ConfigError
from configs.loader import load
from configs.settings import ChatTier, Settings
from deployments.tiers import needs
from serve.cli import main
from serve.supervisor import preflight

GPU = Path(__file__).parents[2] / "configs" / "gpu.yaml"


def checked(path: Path) -> str:
    ran = CliRunner().invoke(main, ["config", "check", str(path)])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def changed(folder: Path, **deep: Any) -> Path:
    """The GPU profile with other keys of the deep tier's engine, and a cache of its own."""
    profile = yaml.safe_load(GPU.read_text())
    profile["tiers"]["deep"]["engine"] |= deep
    profile |= {"agents_dir": str(GPU.parent / "agents"), "data": {"home": str(folder), "cache": str(folder)}}
    path = folder / "gpu.yaml"
    path.write_text(yaml.safe_dump(profile))
    return path


def test_the_gpu_profile_tells_cards_memory_and_what_is_to_fetch(tmp_path: Path) -> None:
    told = checked(changed(tmp_path))
    for wanted in (
        "31.2 GB to fetch",
        "31.2 GB of weights on each GPU",
        "in all: 2 GPUs; 40.5 GB to fetch",
        "postgresql://",
    ):
        assert wanted in told


def test_a_model_over_several_cards_has_its_part_on_each(tmp_path: Path) -> None:
    told = checked(changed(tmp_path, tensor_parallel=2, pipeline_parallel=2))
    assert "4 a replica" in told and "7.8 GB of weights on each GPU" in told and "in all: 5 GPUs" in told


def test_tiers_may_share_a_card(tmp_path: Path) -> None:
    assert "0.5 a replica" in checked(changed(tmp_path, placement={"bundle_per_worker": {"GPU": 0.5}}))


def test_what_was_fetched_is_not_to_fetch_and_its_size_is_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "weights" / "Qwen--Qwen3-Coder-30B-A3B-Instruct-FP8@main"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"0" * 200_000_000)
    (folder / "fetched.json").write_text(json.dumps({"model.safetensors": 200_000_000}))
    told = checked(changed(tmp_path))
    assert "weights: 0.2 GB, nothing to fetch" in told and "9.3 GB to fetch" in told


def test_a_size_that_nobody_told_is_said_to_be_unknown(tmp_path: Path) -> None:
    told = checked(changed(tmp_path, size_bytes=None))
    assert "their size is known once they are fetched" in told and "what the hub alone knows" in told


def test_the_variant_for_smaller_cards_is_a_valid_one(tmp_path: Path) -> None:
    """The comments of the profile, without their marks, in the place of the two tiers above them."""
    text = GPU.read_text()
    before, _, rest = text.partition("  # For cards of 80 GB.\n")
    _, _, rest = rest.partition("  # For cards of 24 GB: put these two in the place of the two above.\n")
    variant, _, embed = rest.partition("  embed:\n")
    lines = [line.replace("# ", "", 1).rstrip().removesuffix("#") for line in variant.splitlines()]
    path = tmp_path / "small.yaml"
    agents = f"agents_dir: {GPU.parent / 'agents'}\n"
    path.write_text(agents + before + "\n".join(lines) + "\n  embed:\n" + embed)
    parts = [part for part in needs.parts(load(path)) if part.gpus]
    assert [part.engine.model for part in parts] == ["Qwen3-14B-AWQ", "Qwen3-4B-Instruct-2507"]
    assert all((needs.files(part.engine, tmp_path).size_bytes or 1e12) < 0.9 * 24e9 * part.gpus for part in parts)


def test_a_machine_without_a_card_is_told_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "DEVICES", tmp_path)
    settings: Settings = load(changed(tmp_path))
    with pytest.raises(preflight.NotReady, match="needs 2 GPUs and this machine has none"):
        preflight.check_gpus(settings)
    (tmp_path / "nvidia0").touch()
    preflight.check_gpus(settings)


@pytest.mark.parametrize(
    ("engine", "named"),
    [
        ({"arguments": {"max_model_len": 5}}, "context_tokens"),
        ({"arguments": {"trust_remote_code": True}}, "never run"),
        ({"device": "cpu", "accelerator": "H100"}, "device is cpu"),
        ({"prefill": {}}, "kv_transfer_config"),
        ({"prefill": {"arguments": {"enable_lora": True}}, "arguments": {"kv_transfer_config": {"a": 1}}}, "adapters"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(engine: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        ChatTier.model_validate({"engine": {"kind": "vllm", "model": "m", "source": "path:/m", **engine}})


def test_an_adapter_has_a_name_of_its_own_and_an_agent_names_one_of_its_tier(tmp_path: Path) -> None:
    adapters = {"sql": "path:/sql"}
    agent = (GPU.parent / "agents" / "code-reviewer.yaml").read_text()
    agents = tmp_path / "agents"
    agents.mkdir()
    profile = yaml.safe_load(changed(tmp_path, adapters=adapters).read_text()) | {"agents_dir": str(agents)}
    path = tmp_path / "gpu.yaml"
    path.write_text(yaml.safe_dump(profile))
    (agents / "code-reviewer.yaml").write_text(agent + "adapter: sql\n")
    assert "tier deep, adapter sql" in checked(path)
    (agents / "code-reviewer.yaml").write_text(agent + "adapter: sqll\n")
    with pytest.raises(ConfigError, match="the tier deep has no 'sqll'; it has sql"):
        load(path)
    (agents / "code-reviewer.yaml").write_text(agent)
    (agents / "sql.yaml").write_text(agent.replace("name: code-reviewer", "name: sql"))
    with pytest.raises(ConfigError, match="belong to tiers or adapters"):
        load(path)
    profile["tiers"]["fast"]["engine"]["adapters"] = adapters
    path.write_text(yaml.safe_dump(profile))
    with pytest.raises(ConfigError, match="'sql' belongs to a tier or stands twice"):
        load(path)

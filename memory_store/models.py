"""Which embedding models made vectors here, and of how many numbers: a second dimension under one name is a mistake."""

from __future__ import annotations

from memory_store.errors import WrongDimension
from memory_store.pool import SQL
from memory_store.upkeep import Connection


async def register(connection: Connection, model: str, dimension: int) -> None:
    """Note a model's dimension on its first use. Raises WrongDimension when it had another one before."""
    await connection.execute(SQL["register_model"], model, dimension)
    known = await connection.fetchval(SQL["dimension_of"], model)
    if known != dimension:
        raise WrongDimension(known, dimension)

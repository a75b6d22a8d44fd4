"""`recall-serve doctor`: is the embedding model what it should be, on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from configs import folders
from configs.settings import Settings
from deployments.tiers import cards
from deployments.tiers.contract import EmbeddingEngine
from deployments.tiers.engines import embedding_engine
from deployments.tiers.errors import EngineFailed
from deployments.tiers.weights import WeightsError
from serve.cli import profile


@click.command()
@profile.option
def doctor(path: Path) -> None:
    """Load the profile's embedding model and hold it against what its card prints.

    The similarities of the card's own example are computed anew; one that is off by more than 0.02 is a failure. Nothing
    needs to run meanwhile; the first time, the weights are fetched.
    """
    settings = profile.read(path)
    try:
        engine = _started(settings)
        similarities, fault = cards.measured(engine)
    except (EngineFailed, WeightsError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{engine.model}: {settings.tiers.embed.engine.kind}, {engine.dimension} dimensions")
    card = cards.CARDS.get(engine.model)
    _tell(similarities, card)
    if card and cards.off_the_card(card, similarities):
        raise click.ClickException(
            f"{engine.model} does not compute what its card prints ({card.source}): these are other weights, another "
            "pooling, or the instruction in tiers.embed.engine.query_prompt is not the card's; do not use it for memory"
        )
    if fault:
        raise click.ClickException(f"{engine.model} does not embed as it should: {fault}; do not use it for memory")
    click.echo(_verdict(engine, card))


def _started(settings: Settings) -> EmbeddingEngine:
    engine = embedding_engine(settings.tiers.embed, folders.weights(settings))
    engine.start()
    return engine


def _tell(similarities: cards.Similarities, card: cards.Card | None) -> None:
    for row, query in enumerate(cards.QUERIES):
        for column, document in enumerate(cards.DOCUMENTS):
            expected = f"card {card.similarities[row][column]:.4f}, " if card else ""
            click.echo(f"  {query!r} to {document[:32]!r}: {expected}here {similarities[row][column]:.4f}")


def _verdict(engine: EmbeddingEngine, card: cards.Card | None) -> str:
    if card:
        return f"ok: as its card prints, within {cards.TOLERANCE}"
    return (
        f"ok: unit vectors, each query nearest to its own document; no card of {engine.model} is known to compare with"
    )

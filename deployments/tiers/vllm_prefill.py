"""A replica that reads prompts for a vLLM tier whose own replicas only write: Ray Serve's, with our first steps."""

from __future__ import annotations

from typing import Any

from ray.serve.llm.deployment import PDPrefillServer

from deployments import replica


class Prefill(PDPrefillServer):  # type: ignore[misc]  # Ray is untyped
    """See `deployments.replica` for what comes first."""

    async def __init__(self, *arguments: Any, **named: Any) -> None:  # type: ignore[misc]  # Serve awaits it
        replica.prepare()
        await super().__init__(*arguments, **named)

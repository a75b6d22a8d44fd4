"""What a turn tells while it runs. The edge puts it into a wire format; the loop knows of none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from deployments.tiers.contract import Usage
from tools.step import Step

StopReason = Literal["answered", "tool_limit", "token_budget", "deadline", "length", "repeated_call"]


@dataclass(frozen=True)
class Text:
    """A piece of the answer."""

    text: str
    logprobs: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Stepped:
    """A step began or ended."""

    step: Step


@dataclass(frozen=True)
class Ended:
    """The turn is over. `shown` and `cited` are None where nothing was to be recalled."""

    reason: StopReason
    usage: Usage
    shown: list[dict[str, Any]] | None = None
    cited: list[str] = field(default_factory=list)


Event = Text | Stepped | Ended

"""Why a session leaves no episode.

EpisodeRefused      nothing sound could be kept; `reason` says which rule was the last to fail
"""

from __future__ import annotations

from typing import Literal

from deployments.agent.errors import AgentError

Reason = Literal["empty", "language", "person", "unsafe", "invented", "form"]


class EpisodeRefused(AgentError):
    """No episode is kept. `empty`: the person said nothing to keep, and nothing was spent; others: the tier wrote none."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason

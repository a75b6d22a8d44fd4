"""What the parts of the tree of settings have in common."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]


class Section(BaseModel):
    """A part of the tree: frozen, and an unknown key is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Replicas(Section):
    """The autoscaling range of a deployment."""

    min: int = Field(
        1, ge=0, description="Fewest replicas. 0 lets a tier sleep; its next request then waits for a start."
    )
    max: int = Field(1, ge=1, description="Most replicas.")

    @model_validator(mode="after")
    def _ordered(self) -> Replicas:
        if self.min > self.max:
            raise ValueError("min may not be greater than max")
        return self


def sections_in(annotation: Any) -> list[type[BaseModel]]:
    """The sections that a field's annotation holds, alone, in an Optional or in a list: none for a plain value, several
    where `kind` chooses one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in getattr(annotation, "__args__", ()) for section in sections_in(part)]


def kind_of(section: type[BaseModel]) -> str:
    """The value of `kind` that chooses this section among others."""
    (kind,) = get_args(section.model_fields["kind"].annotation)
    return str(kind)

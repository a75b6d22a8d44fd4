"""X10: a limit that bounds nothing is refused before anything runs."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from deployments.sandbox import errors
from deployments.sandbox.limits import Limits

FIELDS = [field.name for field in dataclasses.fields(Limits)]


@pytest.mark.parametrize("value", [0, -1, -0.0, float("nan"), float("inf"), 1e12, 10**12, True, None, "5"], ids=repr)
@pytest.mark.parametrize("field", FIELDS)
def test_what_bounds_nothing_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(errors.InvalidLimits) as refused:
        Limits(**{field: value})  # type: ignore[arg-type]
    assert refused.value.field == field


@pytest.mark.parametrize("field", [name for name in FIELDS if name != "wall_seconds"])
def test_a_fraction_is_no_count(field: str) -> None:
    with pytest.raises(errors.InvalidLimits):
        Limits(**{field: 64.5})


def test_fractions_of_a_second_are_seconds() -> None:
    assert Limits(wall_seconds=0.5).wall_seconds == 0.5


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidLimits("processes", 4, 1024),
        errors.ProgramTooLarge(3, 2),
        errors.SandboxUnfit(("one wall", "another")),
        errors.SandboxFailed("fault"),
        errors.SandboxClosed(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_cross_a_handle_unchanged(error: errors.SandboxError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.args == error.args and vars(again) == vars(error)

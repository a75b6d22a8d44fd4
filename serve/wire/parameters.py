"""Which parameters of a request are honoured, which pass without effect, and which are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from configs.settings import Http
from serve.body import read_json
from serve.errors import ApiError, bad_request

Body = TypeVar("Body", bound=BaseModel)
_WITHOUT_EFFECT = {
    "user",
    "metadata",
    "service_tier",
    "parallel_tool_calls",
    "prompt_cache_key",
    "safety_identifier",
}
# A neutral value of a parameter we lack is no wish.
_NEUTRAL: dict[str, Callable[[Any], bool]] = {
    "store": lambda value: value is False,
    "frequency_penalty": lambda value: type(value) in (int, float) and value == 0,
    "presence_penalty": lambda value: type(value) in (int, float) and value == 0,
    "logit_bias": lambda value: value == {},
    "functions": lambda value: value == [],
    "modalities": lambda value: value == ["text"],
}


class Strict(BaseModel):
    """A part of a request body: no coercion, no unknown keys, and no value in an error."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True, frozen=True)


def sift(body: dict[str, Any], honoured: Collection[str], nulls: Collection[str] = ()) -> dict[str, Any]:
    """The honoured parameters of `body`; a null is no wish, but for those named in `nulls`.

    Raises ApiError 400 that names every other wish at once.
    """
    wished = {key: value for key, value in body.items() if value is not None or key in nulls}
    wishes = {key: value for key, value in wished.items() if key not in _WITHOUT_EFFECT}
    unknown = [key for key in wishes if key not in honoured and not _NEUTRAL.get(key, lambda _: False)(wishes[key])]
    if unknown:
        names = ", ".join(repr(name[:60]) for name in sorted(unknown)[:20])
        raise bad_request(f"Not supported here: {names}. Leave them out.", unknown[0][:60], "unsupported_parameter")
    return {key: value for key, value in wishes.items() if key in honoured}


async def read(request: Request, http: Http, model: type[Body], nulls: Collection[str] = ()) -> Body:
    """A request's whole body as `model`. Raises ApiError 400, 408, 413, 415."""
    body = await read_json(request, http.body_bytes, http.body_seconds)
    return parsed(model, sift(body, model.model_fields, nulls))


def parsed(model: type[Body], values: dict[str, Any]) -> Body:
    """`values` as `model`. Raises ApiError 400 with the place of the first mistake."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _mistake(error) from None


def _parts(mistake: Any) -> list[int | str]:
    return [part for part in mistake["loc"] if isinstance(part, int) or _is_key(part)]


def _is_key(part: str) -> bool:
    """Whether a part of a place is a key of the body; pydantic also names the member of a union that it tried."""
    return part.isidentifier() and part not in ("str", "list", "int", "float", "bool")


def _mistake(error: ValidationError) -> ApiError:
    mistakes = error.errors(include_url=False, include_context=False, include_input=False)
    here = [one for one in mistakes if _parts(one)[:1] == _parts(mistakes[0])[:1]]
    first = max(here, key=lambda one: len(_parts(one)))  # of a union's members, the one that fits furthest
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in _parts(first)).lstrip(".")[:200]
    reason = str(first["msg"]).removeprefix("Value error, ")
    return bad_request(f"{place or 'body'}: {reason}.", place or None)

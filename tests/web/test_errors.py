"""The error tree: each has a code, a sentence for a model, survives pickling, and none of httpcore's is left unmapped."""

from __future__ import annotations

import pickle

import httpcore
import pytest

from deployments.web import errors, fetch
from deployments.web.errors import BadUrl, WebError
from tests.web.conftest import Web, response

ARGUMENTS = {
    errors.BadUrl: ("it has a backslash",), errors.TimedOut: ("good.example", 1.5), errors.TooManyRedirects: ("good.example", 5),
    errors.HttpStatus: ("good.example", 404), errors.BadResponse: ("good.example", "it is not HTTP"),
}  # fmt: skip

FOREIGN = [
    name
    for name, kind in vars(httpcore).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and name != "ConnectionNotAvailable"  # its pool handles it
]


def classes(base: type[WebError] = WebError) -> list[type[WebError]]:
    return [one for child in base.__subclasses__() for one in [child, *classes(child)]]


def made(kind: type[WebError]) -> WebError:
    return kind(*ARGUMENTS.get(kind, ("good.example",)))


@pytest.mark.parametrize("kind", classes())
def test_an_error_survives_pickling(kind: type[WebError]) -> None:
    error = made(kind)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, str(again), vars(again)) == (type(error), error.args, str(error), vars(error))


@pytest.mark.parametrize("kind", classes())
def test_an_error_has_a_sentence_and_a_place_in_the_drawing(kind: type[WebError]) -> None:
    assert str(made(kind)).endswith(".") and "{" not in str(made(kind))
    assert kind.__name__ in (errors.__doc__ or "")


def test_codes_are_distinct() -> None:
    codes = [kind.code for kind in classes() if kind is not errors.UrlError]
    assert len(codes) == len(set(codes)) == 15
    assert all(code in (errors.__doc__ or "") for code in codes)


@pytest.mark.parametrize("status", [204, 206, 300, 400, 401, 403, 404, 407, 410, 418, 429, 500, 503, 599, 999])
def test_each_status_has_a_sentence(status: int) -> None:
    assert str(status) in str(errors.HttpStatus("good.example", status))


@pytest.mark.parametrize("name", FOREIGN)
async def test_no_error_of_httpcore_comes_through(name: str, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*arguments: object) -> None:
        raise getattr(httpcore, name)("secret")

    monkeypatch.setattr(fetch.Fetcher, "_get", fail)
    with pytest.raises(WebError) as error:
        await web.open()
    assert "secret" not in str(error.value) and error.value.__cause__ is None


def test_braces_in_a_host_are_only_text() -> None:
    assert "{x}" in str(errors.NotText("{x}")) and str(BadUrl("a {b}")).endswith("a {b}.")


async def test_no_repr_of_a_page_or_a_url_in_an_error_holds_its_words(web: Web) -> None:
    """Ray logs both."""
    web.answer("/secret-path", response(b"<title>secret-title</title><p>secret-text <a href=/secret-link>x</a>"))
    page = await web.open("http://good.example/secret-path")
    assert "secret-" in page.url and "secret-" in page.text and "secret-" not in repr(page)
    assert pickle.loads(pickle.dumps(page)) == page

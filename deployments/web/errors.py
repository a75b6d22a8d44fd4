"""Why a page could not be read.

WebError
├── UrlError                nothing was sent
│   ├── BadUrl                bad_url             not a URL that is opened
│   └── PortRefused           port_refused        a port that is not opened
├── AddressRefused          address_refused     the name or one of its addresses is not on the public internet
├── DnsFailed               dns_failed          the name has no address, or nobody said so in time
├── ConnectFailed           connect_failed      no address took the connection
├── TlsFailed               tls_failed          no trusted, matching certificate
├── TimedOut                timeout             the deadline passed
├── RedirectRefused         redirect_refused    the page sends its readers somewhere that is not followed
├── TooManyRedirects        too_many_redirects
├── HttpStatus              http_status         the server says there is no page (404, 500), or not for everyone (401, 403)
├── BadResponse             bad_response        what came is not HTTP as it should be
├── TooLarge                too_large           more bytes came than are read, with no text to show for them
├── NotText                 not_text            a picture, an archive, a program
├── TooComplex              too_complex         the markup could not be reduced within time and memory
└── Unreadable              unreadable          there is no text in it

`code` is for programs, the sentence for a model. They cross Ray handles by pickle and are logged: at most the host stands in
them, never a path, an address or a word of the page.
"""

from __future__ import annotations


class WebError(Exception):
    """Base of this package's errors. `host` is as it was sent, in its ASCII form; empty where there is none."""

    code = "web_error"
    sentence = "The page could not be read."

    def __init__(self, host: str = "") -> None:
        super().__init__(host)
        self.host = host

    def __str__(self) -> str:
        return self.sentence.format(host=self.host)


class UrlError(WebError):
    """The URL itself is refused, before anything is looked up."""


class BadUrl(UrlError):
    """`reason` says what is wrong with the form, in our words."""

    code = "bad_url"

    def __init__(self, reason: str) -> None:
        WebError.__init__(self, "")
        self.args = (reason,)
        self.reason = reason

    def __str__(self) -> str:
        return f"This URL cannot be opened: {self.reason}."


class PortRefused(UrlError):
    code = "port_refused"
    sentence = "This port of {host} is not opened. Use http or https with its usual port."


class AddressRefused(WebError):
    code = "address_refused"
    sentence = "{host} is not on the public internet, so it is not opened."


class DnsFailed(WebError):
    code = "dns_failed"
    sentence = "No address was found for {host}. Check the spelling of the host."


class ConnectFailed(WebError):
    code = "connect_failed"
    sentence = "{host} does not take connections."


class TlsFailed(WebError):
    code = "tls_failed"
    sentence = "{host} has no valid certificate for a safe connection."


class TimedOut(WebError):
    """Nothing complete came within `seconds`."""

    code = "timeout"

    def __init__(self, host: str, seconds: float) -> None:
        WebError.__init__(self, host)
        self.args = (host, seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"{self.host} did not send the page within {self.seconds:g} seconds."


class RedirectRefused(WebError):
    code = "redirect_refused"
    sentence = "{host} sends its readers on to a place that is not opened."


class TooManyRedirects(WebError):
    """More than `limit` redirects."""

    code = "too_many_redirects"

    def __init__(self, host: str, limit: int) -> None:
        WebError.__init__(self, host)
        self.args = (host, limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.host} redirects more than {self.limit} times."


class HttpStatus(WebError):
    """The server answered with `status`, which carries no page."""

    code = "http_status"

    def __init__(self, host: str, status: int) -> None:
        WebError.__init__(self, host)
        self.args = (host, status)
        self.status = status

    def __str__(self) -> str:
        return f"{self.host} answered {self.status}: {_meaning(self.status)}."


def _meaning(status: int) -> str:
    if status in (401, 403, 407):
        return "the page is not open to everyone"
    if status in (404, 410):
        return "there is no such page"
    if status == 429:
        return "it was asked too often"
    return "the site has a problem" if 500 <= status < 600 else "there is no page to read"


class BadResponse(WebError):
    """`reason` says what is wrong with the answer, in our words."""

    code = "bad_response"

    def __init__(self, host: str, reason: str) -> None:
        WebError.__init__(self, host)
        self.args = (host, reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"The answer of {self.host} cannot be used: {self.reason}."


class TooLarge(WebError):
    code = "too_large"
    sentence = "The answer of {host} is larger than what is read."


class NotText(WebError):
    code = "not_text"
    sentence = "What {host} sent is not text or HTML."


class TooComplex(WebError):
    code = "too_complex"
    sentence = "The markup of the page at {host} is too complex to read."


class Unreadable(WebError):
    code = "unreadable"
    sentence = "The page at {host} holds no readable text. It may need a browser that runs scripts."

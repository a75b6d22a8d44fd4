"""A parsed page as text that a person, or a model, would read.

Headings, lists, tables and code keep their shape; scripts, hidden parts and what stands around the page itself (menus,
banners, footers) fall away; each link is followed by its number. Parts are left out by what they are declared to be, not by
how many links they hold, so the list of links of an index page is not taken for a menu.

Left out as well: what is hidden inline (`hidden`, `aria-hidden`, an element's own style), noscript, form fields, alternative
texts outside links. What only a style sheet hides, or hides by colour, is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from resiliparse.parse.html.node import TEXT, ElementNode, Node

from deployments.web.layout import Layout
from deployments.web.links import Links


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NODES = 300_000  # looked at in one pass
_ENOUGH_CHARS = 200
_LIST_DEPTH = 6
_STYLE_CHARS = 2000
_NEVER = _words(
    "script style template noscript head iframe frame object embed applet canvas audio video svg math map "
    "select datalist textarea input button progress meter dialog"
)
_AROUND = _words("footer aside header")  # of the page; inside an article they belong to it
_AROUND_ROLES = _words("navigation banner contentinfo complementary search menu menubar dialog alertdialog")
_AROUND_CLASSES = _words(
    "ad ads advert advertisement sponsored cookie-banner cookie-notice cookie-consent cookie-bar newsletter sidebar "
    "breadcrumb breadcrumbs social-share navbar site-nav skip-link skip-to-content"
)
_LINES = _words("div section article main header footer aside address figcaption legend dt dd summary tr caption")
_APART = _words("p ul ol dl table blockquote pre figure form fieldset details hr h1 h2 h3 h4 h5 h6")
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_HIDDEN_STYLE = re.compile(
    r"(?:^|;)(?:display:none|visibility:(?:hidden|collapse)|(?:opacity|font-size|max-height):0?\.?0*(?:px|pt|r?em|%)?(?:[;!]|$)"
    r"|(?:text-indent|left|top|right|bottom|margin-left|margin-top):-\d{3,}|clip(?:-path)?:(?:rect\(0|inset\((?:50|100)%))"
)


@dataclass
class Rendered:
    """What a reader sees, and the links in it."""

    text: str
    links: Links
    truncated: bool


def render(body: ElementNode, new_links: Callable[[], Links], limit_chars: int) -> Rendered:
    """The part that the page declares to be its own; if that is next to nothing, all but what stands around it; if that
    is too, all that is visible."""
    passes = [_Pass(new_links(), limit_chars, everything) for everything in (False, False, True)]
    best = Rendered("", new_links(), False)
    for one, root in zip(passes, (_main(body), body, body), strict=True):
        rendered = one.over(root) if root is not None else best
        best = max(best, rendered, key=lambda each: len(each.text))
        if len(best.text) >= _ENOUGH_CHARS:
            break
    return best


def _main(body: ElementNode) -> ElementNode | None:
    """The one part that says it is the page's own; two of a kind are a list of them."""
    for selector in ("main, [role=main]", "article"):
        found = body.query_selector_all(selector)
        if len(found) == 1 and _is_visible(found[0]):
            return found[0]
    return None


def _is_visible(element: ElementNode) -> bool:
    """Whether neither `element` nor what it stands in is hidden."""
    outer: ElementNode | None = element
    while outer is not None:
        if (outer.local_name or "") in _NEVER or _is_hidden(outer):
            return False
        outer = outer.parent_element
    return True


@dataclass
class _Pass:
    """One walk over a part of the tree, without recursion: pages nest as deeply as they like."""

    links: Links
    limit_chars: int
    everything: bool
    inside: int = 0  # how many main and article elements are open
    lists: list[int | None] = field(default_factory=list)  # the next number of each open list; None has bullets
    open_links: int = 0
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        self.layout = Layout(self.limit_chars)

    def over(self, root: ElementNode) -> Rendered:
        self.inside += root.local_name in ("main", "article") or root.get_attribute("role") == "main"
        open_elements: list[tuple[ElementNode, str, int]] = []
        node: Node | None = root.first_child
        for _ in range(_NODES):
            if (node is None and not open_elements) or self.layout.cut:
                break
            node = self._step(node, open_elements)
        unfinished = node is not None or bool(open_elements)
        return Rendered(self.layout.result(), self.links, unfinished or self.layout.cut)

    def _step(self, node: Node | None, open_elements: list[tuple[ElementNode, str, int]]) -> Node | None:
        """Deals with `node`, or with the end of the last open element, and says what comes next."""
        if node is None:
            element, name, since = open_elements.pop()
            self._leave(element, name, since)
            return element.next_sibling
        if node.node_type == TEXT:
            self.layout.add(node.node_value or "")
        elif isinstance(node, ElementNode) and self._is_shown(node, name := node.local_name or ""):
            self._enter(node, name)
            open_elements.append((node, name, self.layout.written_chars))
            return node.first_child
        return node.next_sibling

    def _is_shown(self, element: ElementNode, name: str) -> bool:
        if name in _NEVER or _is_hidden(element):
            return False
        return self.everything or not self._is_around(element, name)

    def _is_around(self, element: ElementNode, name: str) -> bool:
        if name == "nav" or (name in _AROUND and not self.inside):
            return True
        if not element.attribute_names:
            return False
        role, classes = element.get_attribute("role"), element.get_attribute("class")
        return role in _AROUND_ROLES or (
            classes is not None and not _AROUND_CLASSES.isdisjoint(classes.lower().split())
        )

    def _enter(self, element: ElementNode, name: str) -> None:
        self._break(name)
        if name in _HEADINGS:
            self.layout.prefix(_HEADINGS[name])
        elif name in ("ul", "ol"):
            self.lists.append(_start(element) if name == "ol" else None)
        elif name == "li":
            self._bullet()
        elif name == "pre":
            self.layout.preformatted += 1
            self.layout.add("```\n")
        elif name in ("td", "th") and self.layout.on_a_line:
            self.layout.add(" | ")
        elif name == "code" and not self.layout.preformatted:
            self.layout.add("`")
        elif name == "br":
            self._new_line()
        elif name == "img" and self.open_links:
            self.layout.add(element.get_attribute("alt") or "")
        self.open_links += name == "a"
        self.inside += name in ("main", "article")

    def _leave(self, element: ElementNode, name: str, since: int) -> None:
        if name == "pre":
            self.layout.preformatted -= 1
            self.layout.line()
            self.layout.add("```")
        elif name == "code" and not self.layout.preformatted:
            self.layout.mark("`")
        elif name in ("ul", "ol"):
            self.lists.pop()
        elif name == "a" and self.layout.written_chars > since:
            self._mark_link(element.get_attribute("href"))
        if name == "li" or name in _HEADINGS:
            self.layout.prefix("")
        self.open_links -= name == "a"
        self.inside -= name in ("main", "article")
        self._break(name)

    def _break(self, name: str) -> None:
        nested = name in ("ul", "ol") and bool(self.lists)
        if name in _APART and not nested:
            self.layout.apart()
        elif name in _LINES or name == "li" or nested:
            self.layout.line()

    def _new_line(self) -> None:
        if self.layout.preformatted:
            self.layout.add("\n")
        else:
            self.layout.newline()

    def _bullet(self) -> None:
        number = self.lists[-1] if self.lists else None
        if number is not None:
            self.lists[-1] = number + 1
        indent = "  " * min(len(self.lists) - 1, _LIST_DEPTH)
        self.layout.prefix(indent + ("- " if number is None else f"{number}. "))

    def _mark_link(self, href: str | None) -> None:
        number = self.links.number(href) if href is not None else None
        if number is not None:
            self.layout.mark(f" [{number}]")


def _start(element: ElementNode) -> int:
    text = element.get_attribute("start") or "1"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1


def _is_hidden(element: ElementNode) -> bool:
    """Whether an element says of itself that nobody is to see it."""
    names = element.attribute_names
    if not names:
        return False
    if "hidden" in names or (element.get_attribute("aria-hidden") or "").strip().lower() == "true":
        return True
    style = element.get_attribute("style") if "style" in names else None
    return bool(style and _HIDDEN_STYLE.search("".join(style[:_STYLE_CHARS].lower().split())))

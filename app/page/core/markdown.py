"""The documentation as HTML: as much of Markdown as its pages use.

Strategy: line by line into blocks, and within a text from left to right. All text is escaped. The
rows of a table that begin with a word in code can be linked to by that word, as headings can by
their words; so a reason leads to its row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final

from app.page.core.charts import Drawing

Link = Callable[[str], str]  # the target of a link to its path, empty if it leads nowhere

_INLINE: Final = re.compile(
    r"`(?P<code>[^`]+)`|<a id=\"(?P<anchor>[\w-]+)\"></a>"
    r"|!?\[(?P<text>(?:[^\]\[]|\[[^\]]*\])*)\]\((?P<target>[^)\s]*)\)"
    r"|\*\*(?P<strong>[^*]+)\*\*|(?<!\w)[*_](?P<em>[^*_\s][^*_]*)[*_](?!\w)"
)
_HEADING: Final = re.compile(r"(#{1,6}) +(.*?)(?: #+)?$")
_ITEM: Final = re.compile(r"( *)([-*]|\d+\.) +(.*)$")
_FENCE: Final = "```"
_RULE: Final = re.compile(r"\|? *:?-+:? *(\| *:?-+:? *)*\|?$")
_IDENTIFIER: Final = re.compile(r' id="([^"]*)"')
_CODE: Final = re.compile(r"`([\w-]+)`")
_CELL: Final = re.compile(r"(?<!\\)\|")
_NOT_A_WORD: Final = re.compile(r"[^\w\- ]")


def title_of(text: str) -> str:
    """Return the first heading of a page."""
    found = (_HEADING.match(line) for line in text.splitlines())
    return next((_plain(one[2]) for one in found if one is not None), "")


def page_html(text: str, link: Link) -> Drawing:
    """Return a page of the documentation."""
    return Drawing(_unrepeated("\n".join(_blocks(text.splitlines(), link))))


def _unrepeated(html: str) -> str:
    """Leave out identifiers that stand further above: a link leads to the first place."""
    seen: set[str] = set()

    def first(found: re.Match[str]) -> str:
        is_new = found[1] not in seen
        seen.add(found[1])
        return found[0] if is_new else ""

    return _IDENTIFIER.sub(first, html)


def _blocks(lines: Sequence[str], link: Link) -> Iterator[str]:
    at = 0
    while at < len(lines):
        end = _end(lines, at)
        yield from _block(lines[at:end], link)
        at = end


def _end(lines: Sequence[str], at: int) -> int:
    """Return where the block ends that begins on a line."""
    first, after = lines[at], at + 1
    if first.startswith(_FENCE):
        while after < len(lines) and not lines[after].startswith(_FENCE):
            after += 1
        return after + 1
    if not first.strip() or _HEADING.match(first):
        return after
    is_list = _ITEM.match(first) is not None
    while after < len(lines) and lines[after].strip():
        starts = lines[after].startswith(_FENCE) or _HEADING.match(lines[after])
        if starts or (not is_list and _ITEM.match(lines[after])):
            break
        after += 1
    return after


def _block(lines: Sequence[str], link: Link) -> Iterator[str]:
    first = lines[0]
    if first.startswith(_FENCE):
        told = "\n".join(lines[1:-1])
        yield f"<pre>{escape(told)}</pre>"
    elif (heading := _HEADING.match(first)) is not None:
        level, text = len(heading[1]), heading[2]
        yield f'<h{level} id="{escape(slug(text))}">{_inline(text, link)}</h{level}>'
    elif len(lines) > 1 and first.startswith("|") and _RULE.match(lines[1]):
        yield from _table(lines, link)
    elif _ITEM.match(first):
        yield from _list(lines, link)
    elif first.strip():
        yield f"<p>{_inline(' '.join(lines), link)}</p>"


def _table(lines: Sequence[str], link: Link) -> Iterator[str]:
    head, rows = _cells(lines[0]), [_cells(line) for line in lines[2:]]
    yield '<div class="scroll"><table><thead><tr>'
    yield from (f'<th scope="col">{_inline(cell, link)}</th>' for cell in head)
    yield "</tr></thead><tbody>"
    for row in rows:
        code = _CODE.match(row[0])
        yield f'<tr id="{escape(code[1])}">' if code is not None else "<tr>"
        yield from (f"<td>{_inline(cell, link)}</td>" for cell in row)
        yield "</tr>"
    yield "</tbody></table></div>"


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(line.strip().strip("|"))]


def _list(lines: Sequence[str], link: Link) -> Iterator[str]:
    """Return a list; what is indented below an item is a list of its own, or goes on with it."""
    items: list[tuple[str, list[str]]] = []
    first = _ITEM.match(lines[0])
    assert first is not None
    indent, tag = len(first[1]), "ol" if first[2][0].isdigit() else "ul"
    for line in lines:
        item = _ITEM.match(line)
        if item is not None and len(item[1]) <= indent:
            items.append((item[3], []))
        elif item is None and not items[-1][1]:
            items[-1] = f"{items[-1][0]} {line.strip()}", []
        else:
            items[-1][1].append(line)
    yield f"<{tag}>"
    for text, below in items:
        inner = "".join(_list(below, link)) if below else ""
        yield f"<li>{_inline(text, link)}{inner}</li>"
    yield f"</{tag}>"


def _inline(text: str, link: Link) -> str:
    parts, at = [], 0
    for found in _INLINE.finditer(text):
        parts += [escape(text[at : found.start()]), _written(found, link)]
        at = found.end()
    return "".join([*parts, escape(text[at:])])


def _written(found: re.Match[str], link: Link) -> str:
    if found["code"] is not None:
        return f"<code>{escape(found['code'])}</code>"
    if found["anchor"] is not None:
        return f'<a id="{found["anchor"]}"></a>'
    if found["strong"] is not None:
        return f"<strong>{_inline(found['strong'], link)}</strong>"
    if found["em"] is not None:
        return f"<em>{_inline(found['em'], link)}</em>"
    told, path = _inline(found["text"], link), link(found["target"])
    return f'<a href="{escape(path)}">{told}</a>' if path else told


def slug(heading: str) -> str:
    """Return what a heading is linked to by."""
    return _NOT_A_WORD.sub("", _plain(heading).lower()).replace(" ", "-")


def _plain(text: str) -> str:
    return _INLINE.sub(lambda one: next(filter(None, (one[name] for name in _TEXTS)), ""), text)


_TEXTS: Final = ("code", "text", "strong", "em")

"""The documentation, as it is served with the page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from app.page.core.charts import Drawing
from app.page.core.markdown import page_html, title_of

_PAGE: Final = re.compile(r"(?:\.\./docs/)?([\w-]+)\.md(#[\w-]+)?")


@dataclass(frozen=True, slots=True)
class DocsPage:
    """A page of the documentation."""

    title: str
    body: Drawing


def docs_page(name: str) -> DocsPage | None:
    """Return a page, None if there is none."""
    text = docs_texts().get(name)
    return None if text is None else DocsPage(title_of(text), page_html(text, _path))


@cache
def docs_texts() -> Mapping[str, str]:
    """Return the pages by name, as they were written."""
    folder = files("app.page").joinpath("docs")
    if not folder.is_dir():
        return {}
    return {
        path.name.removesuffix(".md"): path.read_text("utf-8")
        for path in sorted(folder.iterdir(), key=lambda one: one.name)
        if path.name.endswith(".md")
    }


def _path(target: str) -> str:
    """Return where a link leads; what is not served is no link."""
    if target.startswith(("#", "https://")):
        return target
    found = _PAGE.fullmatch(target)
    if found is None or found[1] not in docs_texts():
        return ""
    return f"/docs/{found[1]}{found[2] or ''}"

"""The documentation becomes HTML in which all text is escaped and all links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.page.core.markdown import page_html, slug, title_of
from app.page.documentation import docs_page, docs_texts
from tests.cases import cases

DOCS = Path(__file__).parents[3] / "docs"


def html(text: str) -> str:
    """Return a text as HTML; links lead to where they say, but for those to source code."""
    return str(page_html(text, lambda target: "" if target.endswith(".py") else target))


@cases(
    "text written",
    {
        "a heading": ("## At `3` a.m.", '<h2 id="at-3-am">At <code>3</code> a.m.</h2>'),
        "two lines": ("one\ntwo", "<p>one two</p>"),
        "code": ("```sh\na < b\n```", "<pre>a &lt; b</pre>"),
        "code without an end": ("```\na", "<pre></pre>"),
        "a list": ("- one\n  goes on\n- two", "<ul>\n<li>one goes on</li>\n<li>two</li>\n</ul>"),
        "numbers": ("1. one", "<ol>\n<li>one</li>\n</ol>"),
        "a list below": (
            "- one\n  - below\n    goes on",
            "<ul>\n<li>one<ul><li>below goes on</li></ul></li>\n</ul>",
        ),
        "a link": ("[a](b.md#c)", '<p><a href="b.md#c">a</a></p>'),
        "a link that leads nowhere": ("[a](b.py)", "<p>a</p>"),
        "strong": ("**a** and *b*", "<p><strong>a</strong> and <em>b</em></p>"),
        "a tag": ("<script>", "<p>&lt;script&gt;</p>"),
        "a name with underscores": ("vpa_updater_pods", "<p>vpa_updater_pods</p>"),
        "a list behind text": ("text\n- one", "<p>text</p>\n<ul>\n<li>one</li>\n</ul>"),
        "nothing": ("\n", ""),
    },
)
def test_a_block_is_written(text: str, written: str) -> None:
    """Each form that the documentation uses has its element."""
    assert html(text) == written


def test_rows_are_linked_to_by_their_word() -> None:
    """A reason leads to its row in the table."""
    table = html("| Reason | Meaning |\n|---|---|\n| `NoChange` | a \\| b |\n| other | c |")
    assert '<tr id="NoChange">' in table
    assert "<td>a | b</td>" in table
    assert table.count("<tr>") == 2


def test_places_are_told_apart() -> None:
    """Of two places of one name the first is linked to; words in the text are no places."""
    told = page_html('# One\n\n# One\n\n` id="one"`', str)

    assert told == '<h1 id="one">One</h1>\n<h1>One</h1>\n<p><code> id=&quot;one&quot;</code></p>'


def test_a_page_is_called_by_its_first_heading() -> None:
    """Without one it has no title."""
    assert (title_of("text\n# The `page`\n## more"), title_of("text")) == ("The page", "")
    assert slug("Why? [a](b)") == "why-a"


@pytest.mark.parametrize("name", sorted(path.stem for path in DOCS.glob("*.md")))
def test_every_page_is_served(name: str) -> None:
    """All of the documentation is there, and its links to other pages lead to what is served."""
    page = docs_page(name)
    assert page is not None
    paths = re.findall(r'href="/docs/([\w-]+)(?:#([\w-]+))?"', page.body)
    for other, anchor in paths:
        found = docs_page(other)
        assert found is not None
        assert not anchor or f'id="{anchor}"' in found.body, f"{other}#{anchor}"
    assert name in docs_texts()


def test_what_is_no_page_is_none() -> None:
    """A name that no page has leads nowhere."""
    assert docs_page("../LICENSE") is None

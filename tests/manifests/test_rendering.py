"""Documents as YAML text."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.manifests.rendering import render

_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]) | st.just("\n")
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda below: st.lists(below) | st.dictionaries(_TEXT, below),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(_TEXT, _VALUES), min_size=1, max_size=3))
def test_text_says_what_the_documents_say(documents: list[dict[str, object]]) -> None:
    """Whatever is written is read back the same, folded or not."""
    assert list(yaml.safe_load_all(render(documents, header="about"))) == documents


def test_text_of_a_document() -> None:
    """Keys keep their order, sentences are folded, what occurs twice is written twice."""
    twice = {"mode": "Off"}
    document = {
        "z": twice,
        "a": twice,
        "about": f"{'A sentence long enough to be folded. ' * 3}\n- a point".replace(" \n", "\n"),
        "link": "https://example.com/" + "x" * 100,
    }

    assert render([document, {"b": 1}], header="One.\nTwo.") == (
        "# One.\n"
        "# Two.\n"
        "---\n"
        "z:\n"
        "  mode: 'Off'\n"
        "a:\n"
        "  mode: 'Off'\n"
        "about: >-\n"
        "  A sentence long enough to be folded. A sentence long enough to be folded. A sentence\n"
        "  long enough to be folded.\n"
        "\n"
        "  - a point\n"
        f"link: https://example.com/{'x' * 100}\n"
        "---\n"
        "b: 1\n"
    )

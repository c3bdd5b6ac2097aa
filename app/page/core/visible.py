"""Text of others as it is written: nothing in it turns round or hides what stands beside it."""

from __future__ import annotations

import re
from typing import Final

# Controls but line breaks and tabs, and what changes the direction of text or has no width.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)


def visible(text: str) -> str:
    """Return a text whose unseen characters are written as their numbers."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

"""Definitions of other projects, told without downloading any."""

from __future__ import annotations

import pytest

from tests.cluster.foreign import foreign
from tests.cluster.parts import Unavailable


def test_nothing_to_download_with() -> None:
    """Without Go one sentence says what to install."""
    with pytest.raises(Unavailable, match="install Go"):
        foreign({"PATH": "/nowhere"})

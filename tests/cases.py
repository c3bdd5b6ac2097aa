"""Tables of cases."""

from __future__ import annotations

from collections.abc import Mapping

import pytest


def cases(names: str, rows: Mapping[str, tuple[object, ...]]) -> pytest.MarkDecorator:
    """Run a test for each row of a table: the name of the case, then its arguments."""
    found = [pytest.param(*row, id=name) for name, row in rows.items()]
    return pytest.mark.parametrize(names.split(), found)

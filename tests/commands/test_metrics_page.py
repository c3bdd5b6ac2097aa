"""The page of all metrics."""

from pathlib import Path

from app.commands.metrics_page import page


def test_committed_page() -> None:
    """docs/metrics.md is what the code declares."""
    committed = Path(__file__).parents[2] / "docs/metrics.md"
    assert committed.read_text("utf-8") == page(), "run 'make generate'"

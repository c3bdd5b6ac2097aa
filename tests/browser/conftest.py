"""What all looks at pages share: one browser, the demo, and recorded objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.browser.driver import Browser, browsing
from tests.browser.stage import Pages, demo

WIDTH = 1280


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Pages]]:
    """Serve the demo after some hours, and what was recorded of it."""
    with demo(tmp_path_factory.mktemp("demo")) as (live, files):
        yield {"demo": live, "recorded": files}


@pytest.fixture(params=["demo", "recorded"])
def pages(request: pytest.FixtureRequest, served: Mapping[str, Pages]) -> Pages:
    """Return one after the other."""
    return served[request.param]


@pytest.fixture
def shop(served: Mapping[str, Pages]) -> Pages:
    """Return the demo."""
    return served["demo"]


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Have a browser."""
    with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def browser(window: Browser) -> Iterator[Browser]:
    """Return the browser as it is at first; pages must not have made it complain."""
    window.look(WIDTH)
    window.allow_script(is_allowed=True)
    window.forget()
    yield window
    window.listen()
    assert window.complaints == []

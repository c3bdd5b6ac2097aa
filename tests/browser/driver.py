"""A headless Chromium, driven by Debian's chromedriver over the protocol of W3C WebDriver.

Strategy: the protocol is plain HTTP with JSON, so a client of it is shorter than what a library
would bring along. What WebDriver has no word for (widths below that of a window, dark, no script)
goes to Chromium's own protocol through the same door.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.cluster.programs import Program, free_port

CHROMIUM: Final = Path("/usr/bin/chromium")
CHROMEDRIVER: Final = Path("/usr/bin/chromedriver")
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
)
_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
_KEYS: Final = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012"}


@dataclass(frozen=True, slots=True)
class Request:
    """What a page asked for."""

    url: str
    kind: str  # such as Document or Fetch


@dataclass(slots=True)
class Browser:
    """One window."""

    client: httpx.Client
    session: str
    complaints: list[str] = field(default_factory=list)  # of the console
    requests: list[Request] = field(default_factory=list)

    # --- pages

    def open(self, url: str) -> None:
        """Go to an address, and wait until it is loaded."""
        self._post("url", {"url": url})

    @property
    def url(self) -> str:
        """Where it is."""
        return str(self._get("url"))

    def run(self, script: str, *words: object) -> Any:  # noqa: ANN401  whatever the script returns
        """Run the body of a function in the page, and return what it returns."""
        return self._post("execute/sync", {"script": script, "args": words})

    def text(self, css: str = "body") -> str:
        """Return the words that are seen in the first element of a selector."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", css))

    def texts(self, css: str) -> list[str]:
        """Return the words of all elements of a selector."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText.trim())"
        return list(self.run(script, css))

    def count(self, css: str) -> int:
        """Return how many elements a selector has."""
        return int(self.run("return document.querySelectorAll(arguments[0]).length", css))

    # --- hands

    def click(self, css: str) -> None:
        """Click on the first element of a selector."""
        self._post(f"element/{self._element(css)}/click", {})

    def write(self, css: str, text: str) -> None:
        """Write into a field, in the place of what was there."""
        found = self._element(css)
        self._post(f"element/{found}/clear", {})
        self._post(f"element/{found}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        actions = [
            {"type": kind, "value": _KEYS.get(key, key)}
            for key in keys
            for kind in ("keyDown", "keyUp")
        ]
        self._post("actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def point(self, css: str, share: float = 0.5) -> None:
        """Move the pointer onto an element, so far from its left end."""
        script = (
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
            "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]"
        )
        left, top, width, height = self.run(script, css)
        move = {
            "type": "pointerMove",
            "x": round(left + width * share),
            "y": round(top + height / 2),
        }
        pointer = {"type": "pointer", "id": "mouse", "actions": [move]}
        self._post("actions", {"actions": [pointer]})

    # --- eyes

    def look(self, width: int, height: int = 900, *, is_dark: bool = False) -> None:
        """Have so many pixels, and light or dark as a person would choose it."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.tell("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.tell("Emulation.setEmulatedMedia", {"features": [scheme]})

    def allow_script(self, *, is_allowed: bool) -> None:
        """Let pages run script or not, from the next one on."""
        blocked = [] if is_allowed else ["*.js"]
        self.tell("Network.enable", {})
        self.tell("Network.setBlockedURLs", {"urls": blocked})

    def picture(self) -> bytes:
        """Return what is seen, as PNG."""
        return base64.b64decode(self._get("screenshot"))

    def tell(self, command: str, words: Mapping[str, object]) -> Any:  # noqa: ANN401  JSON
        """Give Chromium a command of its own protocol."""
        return self._post("goog/cdp/execute", {"cmd": command, "params": words})

    def listen(self) -> None:
        """Take in what console and network had to say since the last time."""
        for entry in self._post("se/log", {"type": "browser"}):
            self.complaints.append(f"{entry['level']}: {entry['message']}")
        for entry in self._post("se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                words = message["params"]
                self.requests.append(Request(words["request"]["url"], words.get("type", "")))

    def forget(self) -> None:
        """Forget what was taken in."""
        self.complaints.clear()
        self.requests.clear()

    # --- the protocol

    def _element(self, css: str) -> str:
        return str(self._post("element", {"using": "css selector", "value": css})[_ELEMENT])

    def _get(self, path: str) -> Any:  # noqa: ANN401  JSON
        return _value(self.client.get(f"/session/{self.session}/{path}"))

    def _post(self, path: str, words: Mapping[str, object]) -> Any:  # noqa: ANN401  JSON
        return _value(self.client.post(f"/session/{self.session}/{path}", json=words))


def _value(response: httpx.Response) -> Any:  # noqa: ANN401  JSON
    found = response.json()["value"]
    assert response.status_code == httpx.codes.OK, found
    return found


@contextmanager
def browsing(folder: Path, flags: Sequence[str] = ()) -> Iterator[Browser]:
    """Have a browser with an empty profile until the block ends."""
    port = free_port()
    command = [str(CHROMEDRIVER), f"--port={port}", "--log-level=WARNING"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder)}
    driver = Program("chromedriver", command, folder / "chromedriver.log", environment)
    driver.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
            driver.wait_until(lambda: _answers(client))
            session = _value(client.post("/session", json=_wanted(folder, flags)))["sessionId"]
            try:
                browser = Browser(client, session)
                browser.open("about:blank")
                browser.listen()
                browser.forget()  # what its own first page had to say
                yield browser
            finally:
                client.delete(f"/session/{session}")
    finally:
        driver.stop()


def _answers(client: httpx.Client) -> bool:
    try:
        return bool(_value(client.get("/status"))["ready"])
    except httpx.TransportError:
        return False


def _wanted(folder: Path, flags: Sequence[str]) -> Mapping[str, object]:
    profile = folder / "profile"
    profile.mkdir(exist_ok=True)
    options = {
        "binary": str(CHROMIUM),
        "args": [*FLAGS, *flags, f"--user-data-dir={profile}"],
    }
    always = {
        "acceptInsecureCerts": True,
        "goog:chromeOptions": options,
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
    return {"capabilities": {"alwaysMatch": always}}

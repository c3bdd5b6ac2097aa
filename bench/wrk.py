"""Runs wrk, the load generator, and reads what it saw.

Needs wrk (Debian: apt-get install wrk).
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Final

from bench.spent import cpu_seconds


@dataclass(frozen=True, slots=True)
class Load:
    """What was sent where."""

    url: str
    bodies: Path  # one a line, taken at random
    seconds: int = 8
    connections: int = 32
    rate: float = 0  # a second, about; 0 for as fast as it is answered
    most: int = 0  # requests; 0 for any number
    is_over: Callable[[], bool] | None = None  # when it may end before its time
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of it."""

    rate: float
    p50_ms: float
    p99_ms: float
    count: int
    failed: int
    cpu_us: float  # of the server, for each request
    own_cpu_us: float = 0  # of the generator


_LUA: Final = """
local bodies, requests = {{}}, {{}}
for line in io.lines("{bodies}") do bodies[#bodies + 1] = line end
local headers = {{["Content-Type"] = "application/json"{headers}}}
local most, answered = {most}, 0
function init(args)
  math.randomseed(os.time() + tonumber(tostring({{}}):sub(8), 16) % 1000)
  -- All are made beforehand: what the generator spends on the same cores, a server lacks.
  for i, body in ipairs(bodies) do requests[i] = wrk.format("POST", "{path}", headers, body) end
end
function request() return requests[math.random(#requests)] end
"""
_MOST: Final = """
function response(status, headers, body)
  answered = answered + 1
  if answered >= most then wrk.thread:stop() end
end
"""
# Each connection rests between two requests, on average so long that the rate comes out.
_RESTS: Final = """
function delay() return math.random(0, {most_ms}) end
"""
_PROBE_SECONDS: Final = 2
_LOOK_SECONDS: Final = 0.02


def load(folder: Path, asked: Load, session: int) -> Seen:
    """Load a server, all of whose processes are in a session."""
    if not shutil.which("wrk"):
        raise SystemExit("wrk is missing: install it with 'sudo apt-get install wrk'")
    if not asked.rate:
        return _run(folder, asked, session, asked.seconds, 0)
    each_ms = 1000 * asked.connections / asked.rate  # from one request to the next
    first = _run(folder, asked, session, _PROBE_SECONDS, round(2 * each_ms))
    answer_ms = max(1000 * asked.connections / first.rate - each_ms, 0)
    return _run(folder, asked, session, asked.seconds, max(round(2 * (each_ms - answer_ms)), 1))


def _run(folder: Path, asked: Load, session: int, seconds: int, rest_ms: int) -> Seen:
    script = folder / "load.lua"
    origin, _, path = asked.url.removeprefix("https://").partition("/")
    more = "".join(f', ["{name}"] = "{text}"' for name, text in (asked.headers or {}).items())
    text = _LUA.format(bodies=asked.bodies, headers=more, most=asked.most, path=f"/{path}")
    text += _MOST if asked.most else ""
    script.write_text(text + (_RESTS.format(most_ms=rest_ms) if rest_ms else ""))
    threads = 1 if asked.most else 2
    words = [f"-t{threads}", f"-c{asked.connections}", f"-d{seconds}s", "--latency"]
    before, reaped = cpu_seconds(session), _reaped_seconds()
    command = ["wrk", *words, "--timeout=10s", "-s", str(script), f"https://{origin}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        while asked.is_over and running.poll() is None and not asked.is_over():
            time.sleep(_LOOK_SECONDS)
        if asked.is_over:  # it sleeps for all of its time, also when its threads have stopped
            running.send_signal(signal.SIGINT)
        text, _ = running.communicate()
    spent = cpu_seconds(session) - before
    return read(text, spent, _reaped_seconds() - reaped)


def _reaped_seconds() -> float:
    """Return the CPU time of all programs that were started here and have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read(text: str, spent: float, own: float = 0) -> Seen:
    """Read what wrk printed; the server and the generator have spent so many seconds of CPU."""
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    errors = re.search(
        r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text
    )
    count = int(_found(r"(\d+) requests in", text))
    return Seen(
        rate=float(_found(r"Requests/sec:\s+([\d.]+)", text)),
        p50_ms=_milliseconds(_found(r"\n +50%\s+(\S+)", text)),
        p99_ms=_milliseconds(_found(r"\n +99%\s+(\S+)", text)),
        count=count,
        failed=(int(bad[1]) if bad else 0) + (sum(map(int, errors.groups())) if errors else 0),
        cpu_us=spent * 1e6 / max(count, 1),
        own_cpu_us=own * 1e6 / max(count, 1),
    )


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"the load generator said something unexpected:\n{text}")
    return match[1]


def _milliseconds(text: str) -> float:
    for unit, factor in (("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise SystemExit(f"not a duration: {text}")

"""What the load generator says is understood."""

from __future__ import annotations

import pytest

from bench.wrk import Seen, read
from tests.cases import cases

SAID = """\
Running 2s test @ https://127.0.0.1:8000
  2 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     9.56ms    3.11ms  66.62ms   92.15%
    Req/Sec     1.69k   253.62     2.11k    77.50%
  Latency Distribution
     50%  500.00us
     75%   10.02ms
     90%   11.40ms
     99%    1.30s
  6734 requests in 2.00s, 9.97MB read
{trouble}Requests/sec:   3362.86
Transfer/sec:      4.98MB
"""


@cases(
    "trouble failed",
    {
        "none": ("", 0),
        "refused": ("  Non-2xx or 3xx responses: 7\n", 7),
        "broken": ("  Socket errors: connect 1, read 2, write 0, timeout 4\n", 7),
    },
)
def test_read(trouble: str, failed: int) -> None:
    """Rates, percentiles in their units, and what went wrong."""
    seen = read(SAID.format(trouble=trouble), spent=3.367, own=0.6734)
    assert seen == Seen(3362.86, 0.5, 1300, 6734, failed, cpu_us=500, own_cpu_us=100)


def test_nonsense() -> None:
    """What is no report ends the run, and is shown."""
    with pytest.raises(SystemExit, match="unable to connect"):
        read("unable to connect to 127.0.0.1", 0)

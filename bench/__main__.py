"""`python -m bench [NAME...] [--quick] [--rounds N]`: benchmarks beside upstream, all or some.

Each prints what it does, ends by itself, and writes what it found into bench/results and
bench/RESULTS.md at once. A quick run is small, proves nothing but that all of it works, and is kept
in another folder.
"""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Callable, Mapping
from typing import Final

import httpx

from bench import admission, creation, growth, page, recommender, updater
from bench.circumstances import Options
from bench.figures import Result, table
from bench.pages import keep
from tests.cluster.api import Refusal
from tests.cluster.parts import Unavailable
from tests.cluster.programs import GaveUp

BENCHES: Final[Mapping[str, Callable[[Options], Result]]] = {
    "admission": admission.bench,
    "creation": creation.bench,
    "recommender": recommender.bench,
    "updater": updater.bench,
    "growth": growth.bench,
    "page": page.bench,
}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benches beside upstream.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--rounds", type=int, help="of each side; 3 unless told, 1 if quick")
    told = parser.parse_args()
    if unknown := set(told.names) - set(BENCHES):
        parser.error(f"there is no bench {', '.join(sorted(unknown))}")
    options = Options(told.rounds or (1 if told.quick else 3), told.quick)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that programs end, too
    names = list(told.names or BENCHES)
    failed = [name for name in names if not _measured(name, options)]
    if failed:
        raise SystemExit(f"not measured: {', '.join(failed)}")


def _measured(name: str, options: Options) -> bool:
    """Make one bench; tell whether it came to its end, for the others can be made all the same."""
    began = time.monotonic()
    print(f"{name} ...", flush=True)
    try:
        found = BENCHES[name](options)
    except Unavailable as error:
        raise SystemExit(str(error)) from error
    except (GaveUp, Refusal, httpx.HTTPError) as error:
        print(f"{name} failed after {time.monotonic() - began:.0f} s: {error}\n", flush=True)
        return False
    print(table(found.rows), flush=True)
    print(f"{name} took {time.monotonic() - began:.0f} s: {keep(found)}\n", flush=True)
    return True


if __name__ == "__main__":
    main()

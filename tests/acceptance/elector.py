"""`python -m tests.acceptance.elector`: the process of one pod, which stands for election.

Strategy: containers here run nothing, so what a program in a pod would do is done beside it, with
an account of the pod's namespace. It calls itself by the pod's name and a UUID, as client-go does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from app.kube.client import connect
from app.runtime.clock import SystemClock
from app.runtime.election import Election, ElectionRules

LEASE_SECONDS: Final = 6.0
_RENEW_SECONDS: Final = 4.0
_RETRY_SECONDS: Final = 1.0


def main(words: Sequence[str]) -> None:
    """Acquire the Lease, or wait for it, and renew it, until somebody kills this process."""
    reader = argparse.ArgumentParser(prog="python -m tests.acceptance.elector")
    for name in ("kubeconfig", "namespace", "lease", "pod"):
        reader.add_argument(name)
    told = reader.parse_args(words)
    rules = ElectionRules(told.namespace, told.lease, LEASE_SECONDS, _RENEW_SECONDS, _RETRY_SECONDS)
    clock, cluster = SystemClock(), connect(told.kubeconfig).within(_RENEW_SECONDS)
    election = Election(cluster, rules, f"{told.pod}_{uuid4()}", clock)
    while True:
        clock.wait(election.step(clock.now()).wait_seconds)


if __name__ == "__main__":
    main(sys.argv[1:])

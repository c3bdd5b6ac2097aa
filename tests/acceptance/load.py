"""Pods created one after another by several hands, each looked at."""

from __future__ import annotations

import threading
import time

import httpx

from app.model.fields import Json
from tests.acceptance.space import SMALL, Box, Space, annotation, bare_pod
from tests.acceptance.webhook import MUTATING_NAME
from tests.cluster.api import Api, Refusal
from tests.cluster.numbers import total

HANDS = 5


class Load:
    """Creates pods of a ReplicaSet, dry, at a rate, from `with` to the end of the block."""

    def __init__(self, space: Space, owner: Json, per_second: float) -> None:
        self._space = space
        self._pod = owned_pod(owner)
        self._pause = HANDS / per_second
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work) for _ in range(HANDS)]
        self._began = 0.0
        self.sized = 0
        self.unsized = 0
        self.failures: list[str] = []
        self.slowest_seconds = 0.0

    def __enter__(self) -> Load:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self.per_second = (self.sized + self.unsized) / (time.monotonic() - self._began)

    def forget(self) -> None:
        """Count anew: so far not all was as it should be."""
        with self._lock:
            self.sized, self.unsized, self.failures, self.slowest_seconds = 0, 0, [], 0.0
            self._began = time.monotonic()

    @property
    def story(self) -> str:
        """What became of the pods, in words."""
        return (
            f"{self.sized} sized, {self.unsized} not, {len(self.failures)} failed, "
            f"slowest {self.slowest_seconds * 1000:.0f} ms"
        )

    def _work(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            self._try()
            taken = time.monotonic() - began
            self.slowest_seconds = max(self.slowest_seconds, taken)
            self._over.wait(max(self._pause - taken, 0))

    def _try(self) -> None:
        try:
            made = self._space.create(self._pod, dry_run=True)
        except (Refusal, httpx.HTTPError) as error:
            with self._lock:
                self.failures.append(repr(error))
            return
        is_sized = bool(annotation(made, "vpaUpdates"))
        with self._lock:
            self.sized += is_sized
            self.unsized += not is_sized


def owned_pod(owner: Json, box: Box = SMALL) -> Json:
    """Return a pod that a controller would make."""
    name = f"{owner['metadata']['name']}-"
    return bare_pod(box, generateName=name, ownerReferences=[reference(owner)])


def reference(owner: Json) -> Json:
    """Return what an object writes down of its controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def webhook_failures(admin: Api) -> float:
    """Return how often the API server has called our webhook for pods in vain."""
    page = admin.text("/metrics")
    name = "apiserver_admission_webhook"
    opened = total(page, f"{name}_fail_open_count", name=MUTATING_NAME)
    return opened + total(
        page, f"{name}_rejection_count", name=MUTATING_NAME, error_type="calling_webhook_error"
    )

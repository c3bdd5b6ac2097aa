"""What goes because something else went: owned objects, contents of namespaces, old pods."""

from __future__ import annotations

from collections.abc import Iterator

from app.model.errors import NotFound
from app.ports import NAMESPACES, PODS, Json
from app.sandbox.clock import SteppedClock, Worklist
from app.sandbox.kinds import Catalogue, ServedKind, custom_kinds
from app.sandbox.objects import Key, has_ended, is_deleted, key_of, uid_of
from app.sandbox.store import Store, StoredChange
from app.sandbox.writes import Writes

ENDED_PODS_KEPT = 200  # in the whole cluster; of more, the oldest go

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class Garbage:
    """Collects what nobody needs any more."""

    def __init__(
        self, store: Store, writes: Writes, catalogue: Catalogue, clock: SteppedClock
    ) -> None:
        self._store = store
        self._writes = writes
        self._catalogue = catalogue
        self._owners = Worklist(clock, self._collect)
        self._namespaces = Worklist(clock, self._empty)
        self._unserved = Worklist(clock, self._clear)
        self._ended = Worklist(clock, self._thin_out)
        store.listen(self._note)

    def _note(self, collection: str, change: StoredChange) -> None:
        before, after = change.before, change.after
        if after is None and before is not None:
            self._owners.note(uid_of(before))
            if self._is_ending(change.key.namespace):
                self._namespaces.note(change.key.namespace)
            if collection == _DEFINITIONS:
                for kind in custom_kinds(before):
                    self._unserved.note(kind.collection)
        elif after is not None:
            for uid in _owner_uids(after):
                if not self._store.exists(uid):
                    self._owners.note(uid)
            if collection == "namespaces" and is_deleted(after):
                self._namespaces.note(change.key.name)
            if collection == "pods" and has_ended(after):
                self._ended.note("pods")

    def _is_ending(self, namespace: str) -> bool:
        found = self._store.read("namespaces", Key("", namespace)) if namespace else None
        return found is not None and is_deleted(found)

    def _collect(self, uid: str) -> None:
        """Delete what a gone owner owned, unless it is to stay or has another owner."""
        if self._store.exists(uid):
            return
        stays = uid in self._writes.orphaned
        for collection, item in self._store.owned_by(uid):
            kind = self._catalogue.by_collection(collection)
            others = [other for other in _owner_uids(item) if other != uid]
            if kind is None or is_deleted(item):
                continue
            if stays or any(self._store.exists(other) for other in others):
                self._disown(kind, item, uid)
            else:
                self._delete(kind, item)
        self._writes.orphaned.discard(uid)

    def _disown(self, kind: ServedKind, item: Json, uid: str) -> None:
        def without(found: Json) -> Json:
            owners = found["metadata"].get("ownerReferences") or ()
            kept = [owner for owner in owners if owner.get("uid") != uid]
            found["metadata"]["ownerReferences"] = kept
            return found

        try:
            self._writes.change(kind, key_of(item), without)
        except NotFound:
            return

    def _delete(self, kind: ServedKind, item: Json) -> None:
        try:
            self._writes.delete(kind, key_of(item), uid=uid_of(item), orphan=False)
        except NotFound:
            return

    def _empty(self, namespace: str) -> None:
        """Delete all in a namespace that is to go; when nothing is left, let it go."""
        if not self._is_ending(namespace):
            return
        is_empty = True
        for kind in self._catalogue:
            for item in self._store.items(kind.collection, namespace):
                is_empty = False
                if not is_deleted(item):
                    self._delete(kind, item)
        if not is_empty:
            return

        def finalized(found: Json) -> Json:
            found["spec"]["finalizers"] = []
            return found

        kind = self._catalogue.find(NAMESPACES)
        self._writes.change(kind, Key("", namespace), finalized, subresource="finalize")

    def _clear(self, collection: str) -> None:
        """Remove the objects of a kind that is no longer served."""
        with self._store.lock:
            for item in self._store.items(collection):
                self._store.remove(collection, item)

    def _thin_out(self, _collection: str) -> None:
        """Delete the oldest pods that have ended, if they are too many."""
        ended = [pod for pod in self._store.items("pods") if has_ended(pod)]
        ended.sort(key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        kind = self._catalogue.find(PODS)
        for pod in ended[:-ENDED_PODS_KEPT]:
            self._delete(kind, pod)


def _owner_uids(item: Json) -> Iterator[str]:
    for owner in item["metadata"].get("ownerReferences") or ():
        yield str(owner.get("uid", ""))

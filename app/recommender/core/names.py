"""Names of checkpoint objects: `<vpa>-<container>`, or with a hash where that will not do.

Strategy: whoever had a name first keeps it; names of objects that were read are taken from the
start, so a restart renames nothing. Two containers whose plain names collide, and names that are
too long, get a hash of what they stand for.
"""

from __future__ import annotations

import hashlib
from typing import Final

_LONGEST: Final = 253
_HASH_DIGITS: Final = 10

Owner = tuple[str, str]  # VPA and container


class Names:
    """Who holds which name, by namespace."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], Owner] = {}
        self._names: dict[tuple[str, Owner], str] = {}

    def take(self, namespace: str, name: str, owner: Owner) -> None:
        """Note that an object of this name exists; a second object of an owner is ignored."""
        if self._owners.setdefault((namespace, name), owner) == owner:
            self._names.setdefault((namespace, owner), name)

    def of(self, namespace: str, owner: Owner) -> str:
        """Return the name for a container's checkpoint, always the same one."""
        if (namespace, owner) not in self._names:
            plain = "-".join(owner)
            fits = len(plain) <= _LONGEST
            if not fits or self._owners.get((namespace, plain), owner) != owner:
                plain = _hashed(plain, owner)
            self.take(namespace, plain, owner)
        return self._names[namespace, owner]

    def is_free(self, namespace: str, name: str) -> bool:
        """Whether nobody has a name, as far as is known."""
        return (namespace, name) not in self._owners

    def release(self, namespace: str, owner: Owner) -> str | None:
        """Forget an owner, and return the name it had."""
        name = self._names.pop((namespace, owner), None)
        if name is not None:
            del self._owners[namespace, name]
        return name


def _hashed(plain: str, owner: Owner) -> str:
    digest = hashlib.sha256("/".join(owner).encode()).hexdigest()[:_HASH_DIGITS]
    return f"{plain[: _LONGEST - _HASH_DIGITS - 1].rstrip('-.')}-{digest}"

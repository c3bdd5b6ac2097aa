"""Runs a command as a container engine would: its own root, mounts, user and privileges.

Strategy: the root is a folder of mounts in a mount namespace that goes with the command. Nothing is
writable but what is said to be. Programs and libraries are this machine's.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
_SYSTEM: Final = (
    "/bin",
    "/dev",
    "/etc/alternatives",
    "/etc/ssl",
    "/lib",
    "/lib64",
    "/proc",
    "/usr",
)
_FILES: Final = ("/etc/hosts", "/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/passwd")
_BARE: Final = ("--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of this machine, and where it lies for the command."""

    source: Path
    target: str
    is_writable: bool = False


@dataclass(frozen=True, slots=True)
class User:
    """Who the command is."""

    uid: int
    gid: int


def contained(command: Sequence[str], root: Path, user: User, mounts: Sequence[Mount]) -> list[str]:
    """Return the command line that runs a command on a root of its own."""
    python = {sys.prefix, *(str(Path(each).resolve()) for each in (sys.base_prefix, sys.prefix))}
    places = [each for each in (*_SYSTEM, *sorted(python), str(REPOSITORY)) if Path(each).exists()]
    here = [Mount(Path(each), each) for each in places]  # last, for they may lie in what is mounted
    script = "\n".join(_script(command, root, user, [*mounts, *here]))
    return ["unshare", "--mount", "sh", "-c", script]


def _script(
    command: Sequence[str], root: Path, user: User, mounts: Sequence[Mount]
) -> Iterator[str]:
    place = shlex.quote(str(root))
    yield "set -e"
    yield f"mkdir -p {place}"
    yield f"mount -t tmpfs -o mode=755 none {place}"
    yield f"mkdir {place}/etc"
    for file in filter(os.path.exists, _FILES):
        yield f"cp {file} {place}{file}"
    for mount in mounts:
        target = shlex.quote(f"{root}{mount.target}")
        yield f"mkdir -p {target}"
        yield f"mount --bind {shlex.quote(str(mount.source))} {target}"
        if not mount.is_writable:
            yield f"mount -o remount,bind,ro {target}"
    yield f"mount -o remount,ro {place}"
    words = [f"--reuid={user.uid}", f"--regid={user.gid}", *_BARE, "--", *command]
    yield f"exec chroot {place} setpriv {shlex.join(words)}"

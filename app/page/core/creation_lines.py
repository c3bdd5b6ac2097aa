"""What a container gets when its pod is created now, as values that pages show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CreationLine:
    """What a resource of a container is when a pod is created now, step by step."""

    container: str
    resource: str
    had: Mapping[str, str] = field(default_factory=dict)  # request and limit
    recommended: str = ""
    held: str = ""  # what scales by it, so that it stays
    caps: Sequence[str] = ()
    boost: str = ""
    gets: Mapping[str, str] = field(default_factory=dict)
    about_limit: str = ""

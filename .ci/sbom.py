"""Print what the Python that runs this has installed, as a CycloneDX bill of materials.

Strategy: read from what is installed, not from what should be, so that it holds for the image it
lies in. It says neither when nor by whom it was made: equal images have equal bills. BASE names the
image beneath, whose own packages its publisher lists.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions

PROGRAM = "plumbline"
EXTRA = re.compile(r";.*\bextra\s*==")
NAME = re.compile(r"[A-Za-z0-9._-]+")
CLASSIFIER = "License :: OSI Approved :: "


def normal(name: str) -> str:
    """Return a name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def reference(package: Distribution) -> str:
    """Return the package URL."""
    return f"pkg:pypi/{normal(package.metadata['Name'])}@{package.version}"


def licenses(package: Distribution) -> list[dict[str, object]]:
    """Return what a package says of its licence: an expression, else names."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    told = [word for word in metadata.get_all("Classifier") or () if word.startswith(CLASSIFIER)]
    return [{"license": {"name": word.removeprefix(CLASSIFIER)}} for word in told]


def component(package: Distribution, kind: str) -> dict[str, object]:
    """Return the entry of a package."""
    ref, found = reference(package), licenses(package)
    return {
        "type": kind,
        "bom-ref": ref,
        "name": normal(package.metadata["Name"]),
        "version": package.version,
        "purl": ref,
        **({"licenses": found} if found else {}),
    }


def needs(package: Distribution, known: dict[str, Distribution]) -> Iterator[str]:
    """Yield the packages that one needs here; what only an extra needs counts as not needed."""
    for requirement in package.requires or ():
        word = NAME.match(requirement)
        other = known.get(normal(word[0])) if word else None
        if other is not None and not EXTRA.search(requirement):
            yield reference(other)


def bill() -> dict[str, object]:
    """Return all of it."""
    known = {normal(one.metadata["Name"]): one for one in distributions()}
    packages = [known[name] for name in sorted(known)]
    python = f"pkg:generic/python@{platform.python_version()}"
    base = os.environ.get("BASE", "")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": component(known[PROGRAM], "application"),
            **({"properties": [{"name": "plumbline:base-image", "value": base}]} if base else {}),
        },
        "components": [
            {
                "type": "platform",
                "bom-ref": python,
                "name": "python",
                "version": platform.python_version(),
                "purl": python,
            },
            *(component(one, "library") for one in packages if one is not known[PROGRAM]),
        ],
        "dependencies": [
            {"ref": reference(one), "dependsOn": sorted(set(needs(one, known)))} for one in packages
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bill(), indent=2) + "\n")

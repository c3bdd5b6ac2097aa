"""A controller of pods that is not the cluster's own, with a scale subresource."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from app.model.fields import Json
from app.ports import Resource
from tests.acceptance import definitions
from tests.acceptance.space import APP, item_of
from tests.cluster.api import Api

GADGETS: Final = Resource("tests.plumbline.dev", "v1", "gadgets", "Gadget")


def install(admin: Api) -> None:
    """Let there be gadgets."""
    definition = Path(__file__).with_name("gadget.yaml").read_text("utf-8")
    definitions.install(admin, [yaml.safe_load(definition)])


def gadget() -> Json:
    """Return one that wants one pod."""
    return item_of(GADGETS, APP, spec={"replicas": 1})

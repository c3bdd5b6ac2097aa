"""An AdmissionReview, described for people who read the API.

Reviews are not read with these models: what this service does not need may be anything.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

API_VERSION: Final = "admission.k8s.io/v1"

_EXAMPLE: Final[JsonValue] = {
    "apiVersion": API_VERSION,
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "shop",
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}},
    },
}


class _Wire(BaseModel):
    model_config = ConfigDict(extra="allow", alias_generator=to_camel)


class GroupVersionKind(_Wire):
    """What kind of object is reviewed."""

    group: str = ""
    version: str
    kind: str


class GroupVersionResource(_Wire):
    """Which resource was called."""

    group: str = ""
    version: str
    resource: str = Field(description="`pods` or `verticalpodautoscalers`; others pass unchanged")


class ReviewRequest(_Wire):
    """What the API server asks."""

    uid: str = Field(description="comes back in the answer")
    kind: GroupVersionKind
    resource: GroupVersionResource
    request_kind: GroupVersionKind | None = None
    sub_resource: str = ""
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    object: dict[str, Any] | None = Field(None, description="as it shall be")
    old_object: dict[str, Any] | None = Field(None, description="as it is")


class ReviewResponse(_Wire):
    """The answer."""

    uid: str
    allowed: bool = Field(description="false for a VPA that is refused; pods are always allowed")
    status: dict[str, Any] | None = Field(None, description="why it is refused: a metav1 Status")
    patch: str | None = Field(None, description="a JSON patch (RFC 6902), base64")
    patch_type: Literal["JSONPatch"] | None = None
    audit_annotations: dict[str, str] | None = Field(
        None, description="the reason, and the VPA; the API server's audit log has them"
    )
    warnings: list[str] | None = Field(None, description="shown by kubectl")


class AdmissionReview(_Wire):
    """A question with its `request`, an answer with its `response`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    api_version: Literal["admission.k8s.io/v1"] = API_VERSION
    kind: Literal["AdmissionReview"] = "AdmissionReview"
    request: ReviewRequest | None = None
    response: ReviewResponse | None = None

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
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "web-",
                "labels": {"app": "web"},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "StatefulSet",
                        "name": "web",
                        "uid": "2",
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "containers": [{"name": "server", "resources": {"requests": {"cpu": "100m"}}}]
            },
        },
    },
}
_EXPLAINED: Final[JsonValue] = {
    "kind": "AdmissionReview",
    "apiVersion": "admission.k8s.io/v1",
    "response": {
        "uid": "1",
        "allowed": True,
        "patch": [
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            {"op": "add", "path": "/spec/containers/0/resources/requests/cpu", "value": "250m"},
            {
                "op": "add",
                "path": "/metadata/annotations/vpaUpdates",
                "value": "Pod resources updated by web: "
                "container 0: cpu capped to maxAllowed, cpu request",
            },
            {"op": "add", "path": "/metadata/annotations/vpaObservedContainers", "value": "server"},
        ],
        "patchType": "JSONPatch",
        "auditAnnotations": {"reason": "Sized", "vpa": "web"},
    },
    "explanation": {
        "reason": "Sized",
        "message": "VPA web targets StatefulSet/web",
        "pod": "shop/web-%",
        "owner": "StatefulSet/web",
        "vpa": {
            "name": "web",
            "mode": "Recreate",
            "created": "2026-01-05T00:00:00+00:00",
            "why": "the only VPA that matches the pod",
        },
        "containers": [
            {
                "name": "server",
                "cpu": {
                    "had": {"request": "100m"},
                    "recommended": "300m",
                    "caps": ["capped to maxAllowed: 250m"],
                    "gets": {"request": "250m"},
                    "aboutLimit": "the container has none",
                },
            }
        ],
    },
}
REVIEW_REQUEST: Final = {
    "parameters": [
        {
            "name": "timeout",
            "in": "query",
            "description": "how long the caller waits: seconds with an s, at most 30s",
            "schema": {"type": "string", "default": "10s", "example": "5s"},
        }
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/AdmissionReview"}}
        },
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


class _Response(_Wire):
    uid: str
    allowed: bool = Field(description="false for a VPA that is refused; pods are always allowed")
    status: dict[str, Any] | None = Field(None, description="why it is refused: a metav1 Status")
    patch_type: Literal["JSONPatch"] | None = None
    audit_annotations: dict[str, str] | None = Field(
        None, description="the reason, and the VPA; the API server's audit log has them"
    )
    warnings: list[str] | None = Field(None, description="shown by kubectl")


class ReviewResponse(_Response):
    """The answer."""

    patch: str | None = Field(None, description="a JSON patch (RFC 6902), base64")


class AdmissionReview(_Wire):
    """A question with its `request`, an answer with its `response`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    api_version: Literal["admission.k8s.io/v1"] = API_VERSION
    kind: Literal["AdmissionReview"] = "AdmissionReview"
    request: ReviewRequest | None = None
    response: ReviewResponse | None = None


class _Told(BaseModel):
    """What people are told; nothing else is in it."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class PatchOperation(_Told):
    """An operation of a JSON patch (RFC 6902)."""

    op: Literal["add", "remove"]
    path: str
    value: JsonValue = None


class DecodedResponse(_Response):
    """The answer that `/mutate` would give, its patch decoded."""

    patch: list[PatchOperation] | None = None


class ConsideredVpa(_Told):
    """A VPA that could size the pod."""

    name: str
    mode: str
    created: str | None
    why: str = Field(description="why it sizes the pod, or does not")


class ChosenVpa(ConsideredVpa):
    """The VPA that sizes the pod."""

    weaker: list[ConsideredVpa] | None = Field(None, description="others that it comes before")


class Amounts(_Told):
    """What a container asks for of a resource."""

    request: str | None = None
    limit: str | None = None


class ResourceExplanation(_Told):
    """What becomes of a resource of a container, in the order of the decision."""

    had: Amounts | None = None
    recommended: str | None = None
    caps: list[str] | None = Field(None, description="what changed the recommendation, in order")
    boost: str | dict[str, str] | None = Field(None, description="of cpu: the boost for the start")
    gets: Amounts | None = None
    about_limit: str | None = Field(None, description="how the limit came about, or why none did")


class ContainerExplanation(_Told):
    """What becomes of a container; other resources have members of their names."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, ResourceExplanation]

    name: str
    recommendation: str | None = Field(None, description="why there is none; absent if there is")
    cpu: ResourceExplanation | None = None
    memory: ResourceExplanation | None = None


class Explanation(_Told):
    """Why the answer is what it is."""

    reason: str = Field(description="one word, as in the metrics")
    message: str = Field(description="a sentence")
    pod: str | None = Field(None, description="namespace and name")
    owner: str | None = Field(None, description="the pod's topmost controller")
    vpa: ChosenVpa | None = None
    containers: list[ContainerExplanation] | None = None


class ExplainedReview(_Told):
    """What would be answered to a review, and why."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXPLAINED]})

    api_version: Literal["admission.k8s.io/v1"] = API_VERSION
    kind: Literal["AdmissionReview"] = "AdmissionReview"
    response: DecodedResponse
    explanation: Explanation

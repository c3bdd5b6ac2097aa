"""Schema of VerticalPodAutoscaler, all but the parts that have a file of their own.

Strategy: v1 is written out; v1beta2, which no server serves, is v1 less the fields that came
later, so that objects stored long ago still have a schema.
"""

from __future__ import annotations

from app.manifests.policy_schema import resource_policy, startup_boost
from app.manifests.schema import Schema, integer, listing, record, string, top_level, without
from app.manifests.status_schema import vpa_status
from app.model.vpa import ChangeRequirement, UpdateMode

_NOT_IN_V1BETA2 = (
    "spec.recommenders",
    "spec.selector",
    "spec.startupBoost",
    "spec.updatePolicy.minReplicas",
    "spec.updatePolicy.evictionRequirements",
    "spec.updatePolicy.evictAfterOOMSeconds",
    "spec.resourcePolicy.containerPolicies[].controlledResources",
    "spec.resourcePolicy.containerPolicies[].controlledValues",
    "spec.resourcePolicy.containerPolicies[].oomBumpUpRatio",
    "spec.resourcePolicy.containerPolicies[].oomMinBumpUp",
    "spec.resourcePolicy.containerPolicies[].memoryAggregationIntervalSeconds",
    "spec.resourcePolicy.containerPolicies[].memoryAggregationIntervalCount",
    "spec.resourcePolicy.containerPolicies[].startupBoost",
    "status.observedGeneration",
    "status.conditions[].observedGeneration",
)


def vpa_v1() -> Schema:
    """The version that is served and stored."""
    return _vpa(_update_mode())


def vpa_v1beta2() -> Schema:
    """The version that is only kept for objects stored long ago."""
    old_modes = (UpdateMode.OFF, UpdateMode.INITIAL, UpdateMode.RECREATE, UpdateMode.AUTO)
    mode = string("""When a recommendation reaches the pods; see v1.""", choices=old_modes)
    return without(_vpa(mode), *_NOT_IN_V1BETA2)


def _vpa(update_mode: Schema) -> Schema:
    return top_level(
        """
        A VerticalPodAutoscaler watches what the pods of one workload use, recommends cpu and
        memory for each of their containers, and applies that to the pods as its updatePolicy
        says. It never changes the workload itself, only its pods.
        """,
        {"spec": _spec(update_mode), "status": vpa_status()},
        required=("spec",),
    )


def _spec(update_mode: Schema) -> Schema:
    return record(
        """
        What to scale and how. Only targetRef is needed: with nothing else, every container of the
        target is scaled by evicting pods (updateMode Recreate). Add updatePolicy to choose when
        pods change, resourcePolicy to set bounds, startupBoost for faster starts, and selector to
        take only some pods of the target.
        """,
        {
            "targetRef": _target_ref(),
            "selector": _selector(),
            "updatePolicy": _update_policy(update_mode),
            "resourcePolicy": resource_policy(),
            "startupBoost": startup_boost(
                """
                More CPU for every container while its pod starts, taken back in place, without a
                restart, when the pod is Ready and the boost's duration has passed. It works with
                every updateMode, Off included, and outranks the container policies but for their
                controlledValues; a container policy with a startupBoost of its own replaces this
                one. While a pod is boosted it is neither evicted nor resized for other reasons.
                Default: no boost. Needs feature gate CPUStartupBoost in the admission controller
                and the updater.
                """
            ),
            "recommenders": _recommenders(),
        },
        required=("targetRef",),
    )


def _target_ref() -> Schema:
    schema = record(
        """
        The workload whose pods are scaled, in the namespace of this object: a Deployment,
        StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, CronJob, or any custom
        resource with a scale subresource, of which only the pod selector is read. Name the
        topmost controller: a Deployment, not its ReplicaSet. A target that cannot be used shows as
        condition ConfigUnsupported.
        """,
        {
            "apiVersion": string("""API group and version of the target, such as apps/v1."""),
            "kind": string("""Kind of the target, such as Deployment."""),
            "name": string("""Name of the target."""),
        },
        required=("kind", "name"),
    )
    return schema | {"x-kubernetes-map-type": "atomic"}


def _selector() -> Schema:
    schema = record(
        """
        Takes only those pods of the target that carry matching labels; all of matchLabels and
        matchExpressions must hold. Absent or empty means all pods of the target. With it several
        VerticalPodAutoscalers can share one target, say one for role=leader and one for
        role=follower, provided no pod can ever match two of them: each must have a selector, and
        some label must keep them apart. Recommendations are made for the chosen pods alone and
        follow a pod's labels as they change. Pods of the target that no selector takes are left
        alone.
        """,
        {
            "matchLabels": {
                "description": "Labels with the exact value each must have, such as role: leader.",
                "type": "object",
                "additionalProperties": {"type": "string"},
            },
            "matchExpressions": listing(
                """Further conditions on labels, all of which must hold.""", _label_condition()
            )
            | {"x-kubernetes-list-type": "atomic"},
        },
    )
    return schema | {"x-kubernetes-map-type": "atomic"}


def _label_condition() -> Schema:
    return record(
        """One condition on one label.""",
        {
            "key": string("""Name of the label."""),
            "operator": string(
                """
                In or NotIn (the value is, or is not, one of values), Exists or DoesNotExist (the
                label is there, or is not).
                """
            ),
            "values": listing(
                """Values for In and NotIn, at least one; empty for Exists and DoesNotExist.""",
                {"type": "string"},
            )
            | {"x-kubernetes-list-type": "atomic"},
        },
        required=("key", "operator"),
    )


def _update_policy(update_mode: Schema) -> Schema:
    return record(
        """
        When and how pods are changed. Without it updateMode is Recreate; with it updateMode must
        be given.
        """,
        {
            "updateMode": update_mode,
            "minReplicas": integer(
                """
                Pods the target must have alive before one of them may be evicted, or resized in a
                way that restarts it. From 1; 1 lets a single pod be evicted. Default: the
                updater's flag --min-replicas, 2. PodDisruptionBudgets are obeyed besides.
                """,
                bits=32,
            ),
            "evictionRequirements": _eviction_requirements(),
            "evictAfterOOMSeconds": integer(
                """
                A container killed for lack of memory within this many seconds of its start, and
                no longer ago than that, lets its pod be changed at once, without the usual wait
                and however small the change. From 1. Default: the updater's flag
                --evict-after-oom-threshold, 600. Needs feature gate PerVPAConfig.
                """,
                bits=32,
                minimum=1,
            ),
        },
    )


def _update_mode() -> Schema:
    return string(
        """
        When a recommendation reaches the pods. Default Recreate. It may be changed at any time.
        - Off: never; it is only shown in status. Good for a first look.
        - Initial: when a pod is created; running pods are left alone.
        - Recreate: when a pod is created, and running pods are evicted when it is worth it.
        - InPlaceOrRecreate: running pods are resized without a restart where possible, and evicted
        where the node cannot do it.
        - InPlace: running pods are resized and never evicted; what the node cannot do now is
        tried again. Needs feature gate InPlace.
        - UpscaleOnly: as Recreate, but running pods are evicted only to give them more; smaller
        values wait until a pod is created for another reason.
        - Auto: the same as Recreate. Deprecated, name the mode you want.
        """,
        choices=UpdateMode,
    )


def _eviction_requirements() -> Schema:
    return listing(
        """
        Conditions a pod must meet before it is evicted; all of them must hold. Each compares what
        is recommended with what is requested, and holds if some scaled container meets it. Default
        none. Name each resource at most once in the whole list, since two conditions on the same
        one could never both hold. Resizing without a restart is not held back.
        """,
        record(
            """One condition for evicting a pod.""",
            {
                "resources": listing(
                    """
                    Resources that are compared: cpu, memory or both. With both, either of them is
                    enough.
                    """,
                    {"type": "string"},
                ),
                "changeRequirement": string(
                    """
                    The direction in which a resource has to change. To evict only for more cpu:
                    resources [cpu] and TargetHigherThanRequests.
                    - TargetHigherThanRequests: more is recommended than requested.
                    - TargetLowerThanRequests: less is recommended than requested.
                    """,
                    choices=ChangeRequirement,
                ),
            },
            required=("resources", "changeRequirement"),
        ),
    )


def _recommenders() -> Schema:
    return listing(
        """
        Which recommender computes the recommendation; at most one entry. Default: the recommender
        called default.
        """,
        record(
            """One recommender.""",
            {
                "name": string(
                    """Name of the recommender, as its flag --recommender-name gives it."""
                )
            },
            required=("name",),
        ),
    )

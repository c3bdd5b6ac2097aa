"""Schema of `spec.resourcePolicy` and of startup boosts.

Strategy: the schema refuses what one field, or one boost, shows to be wrong by itself. What
needs a feature gate, a second object or the object as it was before is left to the webhook.
"""

from __future__ import annotations

from app.manifests.schema import Schema, integer, listing, quantities, quantity, record, string
from app.model.vpa import BoostType, ControlledValues, ScalingMode

# A sum of numbers with units as Go reads it, without a minus sign: `10s`, `1m30s`, `1.5h`, `.5s`,
# `+2s`, and a bare `0`. Micro is spelled with u, U+00B5 or U+03BC. That Go stops at about 292
# years is no matter of form; the webhook knows it.
DURATION_PATTERN = (
    r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|" + "\u00b5s|\u03bcs" + r"|ms|s|m|h))+)$"
)

CPU_BOOST_RULES = (
    (
        "(self.type == 'Factor') == has(self.factor)",
        "factor must be set if type is Factor, and only then",
    ),
    (
        "(self.type == 'Quantity') == has(self.quantity)",
        "quantity must be set if type is Quantity, and only then",
    ),
    (
        "!(has(self.duration) && has(self.durationSeconds))",
        "duration and durationSeconds mean the same; set only one of them",
    ),
)


def startup_boost(about: str) -> Schema:
    """More CPU for pods that are starting."""
    return record(about, {"cpu": _cpu_boost()})


def resource_policy() -> Schema:
    """What may be recommended for which container."""
    return record(
        """
        Bounds for what is recommended and applied, container by container. Without it every
        container is scaled, cpu and memory, requests and limits, with no bounds but those of the
        namespace's LimitRanges.
        """,
        {
            "containerPolicies": listing(
                """
                One entry per container. The first entry that names a container applies to it; a
                container that no entry names gets the last entry called `*`, if there is one.
                Entries are never merged: an entry of its own replaces `*` with all its fields.
                """,
                _container_policy(),
            )
        },
    )


def _cpu_boost() -> Schema:
    return record(
        """
        The CPU boost. It is worked out from the recommendation at the moment the pod is created
        or, where there is none or updateMode or the container's mode is Off, from the CPU request
        in the pod. minAllowed, maxAllowed and controlledResources do not hold it back; the
        namespace's LimitRanges and the admission controller's flag --max-allowed-cpu-boost do. It
        never lowers a request. The CPU limit grows in proportion; with controlledValues
        RequestsOnly it stays, and the request stays below it. Leave cpu out to boost nothing.
        """,
        _amount() | _duration(),
        required=("type",),
        rules=CPU_BOOST_RULES,
    )


def _amount() -> dict[str, Schema]:
    return {
        "type": string(
            """
            How much more CPU. Each type needs the field of its own name and allows no other.
            - Factor: the CPU request times `factor`.
            - Quantity: the CPU request plus `quantity`.
            """,
            choices=BoostType,
        ),
        "factor": integer(
            """
            Multiplier of the CPU request for type Factor, a whole number from 1. A request of
            200m with factor 3 starts at 600m. 1 boosts nothing, which is how one container
            opts out of spec.startupBoost.
            """,
            bits=32,
            minimum=1,
        ),
        "quantity": quantity(
            """
            CPU added to the request for type Quantity, in whole millicores, such as 500m or
            "2". A request of 200m with quantity 500m starts at 700m.
            """
        ),
    }


def _duration() -> dict[str, Schema]:
    return {
        "duration": string(
            """
            How long the boost goes on after the pod has become Ready, as a sum of numbers
            with units h, m, s, ms, us or ns: 10s, 1m30s, 1.5h, or 0. Never negative. Default
            0: it ends as soon as the pod is Ready. A container policy whose boost names no
            time uses that of spec.startupBoost. Give the container a readiness or startup
            probe, otherwise Ready comes long before the program is warm.
            """,
            pattern=DURATION_PATTERN,
        ),
        "durationSeconds": integer(
            """
            The same as duration, in whole seconds from 0. Use one of the two, never both.
            """,
            bits=32,
            minimum=0,
        ),
    }


def _container_policy() -> Schema:
    fields = _bounds() | _memory_history()
    fields["startupBoost"] = startup_boost(
        """
        More CPU while this container starts, in place of spec.startupBoost; the two are not
        merged. It outranks the other fields of this entry except controlledValues, so a container
        with mode Off is boosted too. An empty object, or factor 1, means no boost for this
        container. Needs feature gate CPUStartupBoost.
        """
    )
    return record("""What may be recommended for one container, or for the others.""", fields)


def _bounds() -> dict[str, Schema]:
    return {
        "containerName": string(
            """
            Name of the container in the pod, or `*` for all containers that no entry names.
            """
        ),
        "mode": string(
            """
            Whether this container is scaled. Default Auto.
            - Auto: recommendations are made, and applied as updateMode says.
            - Off: none are made or applied; a startup boost still is.
            """,
            choices=ScalingMode,
        ),
        "minAllowed": quantities(
            """
            Least request that is recommended, per resource, such as cpu: 100m and memory: 128Mi;
            cpu in whole millicores, memory in whole bytes. Default: no bound. It cannot exceed
            maxAllowed, and it outranks the namespace's LimitRanges.
            """
        ),
        "maxAllowed": quantities(
            """
            Largest request that is recommended, per resource; same units as minAllowed. Default:
            the recommender's flags --container-recommendation-max-allowed-cpu and -memory, if
            set. Only requests are bounded: a limit scaled in proportion may end above it. A
            startup boost may exceed it.
            """
        ),
        "controlledResources": listing(
            """
            Resources that are recommended and applied: cpu, memory or both. Default both; an
            empty list means none. A resource left out keeps what the pod says.
            """,
            {"type": "string"},
        ),
        "controlledValues": string(
            """
            Which values are changed. Default RequestsAndLimits.
            - RequestsAndLimits: requests are set, and limits keep their ratio to the requests: a
            container with request 100m and limit 200m that is given 300m gets limit 600m.
            - RequestsOnly: limits stay, and no request is set above its limit.
            """,
            choices=ControlledValues,
        ),
    }


def _memory_history() -> dict[str, Schema]:
    return {
        "oomBumpUpRatio": quantity(
            """
            How far the memory recommendation rises when the container was killed for lack of
            memory, as a multiple of what it had: 1.2 means a fifth more, 1 means no rise by
            ratio. At least 1. The larger of this and oomMinBumpUp counts. Default: the
            recommender's flag --oom-bump-up-ratio. Needs feature gate PerVPAConfig.
            """
        ),
        "oomMinBumpUp": quantity(
            """
            Least rise of the memory recommendation after such a kill, in bytes, such as 100Mi. 0
            leaves it to oomBumpUpRatio. Default: the recommender's flag --oom-min-bump-up-bytes.
            Needs feature gate PerVPAConfig.
            """
        ),
        "memoryAggregationIntervalSeconds": integer(
            """
            Length in seconds of the stretches of time of which each gives one memory sample, its
            peak. Shorter ones follow a changing program sooner, longer ones hold on to rare
            peaks. Default: the recommender's flag --memory-aggregation-interval, a day. Needs
            feature gate PerVPAConfig.
            """,
            bits=32,
            minimum=1,
        ),
        "memoryAggregationIntervalCount": integer(
            """
            After how many such stretches without a new sample the history of the container is
            dropped. Default: the recommender's flag --memory-aggregation-interval-count, 8. Needs
            feature gate PerVPAConfig.
            """,
            bits=64,
            minimum=1,
        ),
    }

"""Schema of the status of a VerticalPodAutoscaler: what the recommender reports."""

from __future__ import annotations

from app.manifests.schema import Schema, integer, listing, moment, quantities, record, string


def vpa_status() -> Schema:
    """The latest recommendation, and whether there is one and why."""
    return record(
        """What the recommender has found out. Written by it alone.""",
        {
            "recommendation": _recommendation(),
            "conditions": listing(
                """Whether this object works, point by point, one entry per type.""",
                _condition(),
            ),
            "observedGeneration": integer(
                """
                The metadata.generation this status was made from. If it is smaller than the
                current one, the latest change of spec is not yet taken into account.
                """,
                bits=64,
                minimum=0,
            ),
        },
    )


def _recommendation() -> Schema:
    return record(
        """The latest recommendation. Absent until enough has been seen of the pods.""",
        {
            "containerRecommendations": listing(
                """One entry per container, in the order of their names.""",
                _container_recommendation(),
            )
        },
    )


def _container_recommendation() -> Schema:
    return record(
        """
        What is recommended for one container. Containers whose policy has mode Off have no entry.
        """,
        {
            "containerName": string("""Name of the container."""),
            "target": quantities(
                """
                Requests to give the container: cpu in cores or millicores, memory in bytes. Within
                minAllowed and maxAllowed.
                """
            ),
            "lowerBound": quantities(
                """
                A pod that requests less than this is changed soon; with less the container is
                likely to be slow or killed. Within minAllowed and maxAllowed.
                """
            ),
            "upperBound": quantities(
                """
                A pod that requests more than this is changed soon; what is above is likely wasted.
                Wide at first, it closes in as days of history come together. Within minAllowed and
                maxAllowed.
                """
            ),
            "uncappedTarget": quantities(
                """
                What target would be without minAllowed and maxAllowed. For information only: a
                difference from target tells that a bound is at work.
                """
            ),
        },
        required=("target",),
    )


def _condition() -> Schema:
    return record(
        """One thing that holds, does not hold, or is not known.""",
        {
            "type": string(
                """
                What it is about.
                - RecommendationProvided: there is a recommendation in this status.
                - LowConfidence: the recommendation rests on little history.
                - NoPodsMatched: no pod belongs to this object.
                - FetchingHistory: past usage is still being loaded.
                - ConfigDeprecated: something in spec will stop working in a later version.
                - ConfigUnsupported: spec cannot be used, most often for its targetRef.
                """
            ),
            "status": string("""True, False or Unknown."""),
            "lastTransitionTime": moment("""When status last changed."""),
            "reason": string("""Why, in one word for programs."""),
            "message": string("""Why, in a sentence for people."""),
            "observedGeneration": integer(
                """The metadata.generation this condition was found for.""", bits=64, minimum=0
            ),
        },
        required=("type", "status"),
    )

"""Schema of VerticalPodAutoscalerCheckpoint: a container's history, kept over restarts."""

from __future__ import annotations

from app.manifests.schema import Schema, moment, record, string, top_level


def checkpoint() -> Schema:
    """Both versions alike: the format has a version of its own."""
    return top_level(
        """
        What a recommender remembers of one container, so that it can go on after a restart.
        Written and deleted by the recommender; there is nothing to configure here. Deleting one
        while the recommender is stopped makes it forget that container.
        """,
        {
            "spec": record(
                """Whose history this is.""",
                {
                    "vpaObjectName": string(
                        """Name of the VerticalPodAutoscaler, in the same namespace."""
                    ),
                    "containerName": string("""Name of the container."""),
                },
            ),
            "status": _status(),
        },
    )


def _status() -> Schema:
    return record(
        """The history as of lastUpdateTime.""",
        {
            "version": string("""Version of the format; a recommender reads only its own."""),
            "lastUpdateTime": moment("""When this was written.""", nullable=True),
            "firstSampleStart": moment("""When the first sample was taken.""", nullable=True),
            "lastSampleStart": moment("""When the last sample was taken.""", nullable=True),
            "totalSamplesCount": {
                "description": "How many cpu samples were taken. Confidence grows with it.",
                "type": "integer",
            },
            "cpuHistogram": _histogram("""How often how much cpu was used, in cores."""),
            "memoryHistogram": _histogram(
                """How often which peak of memory was reached, in bytes."""
            ),
        },
    )


def _histogram(about: str) -> Schema:
    return record(
        about,
        {
            "referenceTimestamp": moment(
                """
                The moment at which a sample has its plain weight: later ones weigh more, earlier
                ones less.
                """,
                nullable=True,
            ),
            "bucketWeights": {
                "description": (
                    "Share of each bucket, by its number; the heaviest has 10000, empty ones"
                    " are left out."
                ),
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            },
            "totalWeight": {
                "description": "Sum of all weights; it turns the shares back into weights.",
                "type": "number",
            },
        },
    )

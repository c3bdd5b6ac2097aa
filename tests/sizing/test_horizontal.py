"""A resource by which replicas are scaled stays as it is, and can be set free of that."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from app.model.fields import Json
from app.model.limits import NO_LIMITS
from app.model.pods import Pod
from app.model.scalers import coupled_metrics, read_hpa, read_scaled_object
from app.model.vpa import Vpa
from app.sizing.horizontal import scale_point, way_out
from app.sizing.sizing import capped, holding_metrics, sizes
from tests import make
from tests.cases import cases

CPU_70 = make.metric_json("cpu", 70)
SIDE_70 = make.metric_json("cpu", 70, "side")
BOTH = [make.recommendation_json(name, cpu="200m", memory="256Mi") for name in ("app", "side")]


POD = make.pod(
    make.container_json("app", cpu="100m", memory="64Mi", cpu_limit="400m"),
    make.container_json("side", cpu="50m", memory="32Mi"),
)


def held_vpa(*items: Json) -> Vpa:
    """Return the VPA as a snapshot with these objects knows it."""
    found = make.snapshot(make.vpa_json(recommendations=BOTH), *items)
    return found.of("default").vpas["web"]


@cases(
    "items written",
    {
        "nothing scales": (
            [],
            {"app": {"cpu", "memory"}, "side": {"cpu", "memory"}},
        ),
        "cpu of the pod": (
            [make.hpa_json(CPU_70)],
            {"app": {"memory"}, "side": {"memory"}},
        ),
        "cpu of one container": (
            [make.hpa_json(SIDE_70)],
            {"app": {"cpu", "memory"}, "side": {"memory"}},
        ),
        "both resources": (
            [make.hpa_json(CPU_70, make.metric_json("memory", 80))],
            {"app": set(), "side": set()},
        ),
        "another workload": (
            [make.hpa_json(CPU_70, target="Deployment/web")],
            {"app": {"cpu", "memory"}, "side": {"cpu", "memory"}},
        ),
        "an amount": (
            [make.hpa_json(make.metric_json("cpu", "70m"))],
            {"app": {"cpu", "memory"}, "side": {"cpu", "memory"}},
        ),
    },
)
def test_held_resources_are_not_written(items: list[Json], written: dict[str, set[str]]) -> None:
    """What an HPA scales by is neither requested nor limited anew; the rest is sized as usual."""
    vpa = held_vpa(*items)
    current = {container.name: container.resources for container in POD.containers}
    for name, found in capped(POD, vpa, NO_LIMITS, current).items():
        granted = sizes(found, current[name], vpa, NO_LIMITS)
        assert granted.requests.keys() == written[name]
        assert granted.limits.keys() <= written[name]
        assert found.recommended.keys() == {"cpu", "memory"}
        held = {"cpu", "memory"} - written[name]
        assert {note.split()[0] for note in granted.notes if " held: " in note} == held


CPU = st.sampled_from([None, "50m", "100m", "400m"])
MEMORY = st.sampled_from([None, "64Mi", "128Mi", "1Gi"])


@given(
    written=st.lists(st.tuples(CPU, MEMORY, CPU), min_size=2, max_size=2),
    recommended=st.lists(st.tuples(CPU, MEMORY), min_size=2, max_size=2),
    kind=st.sampled_from(["Pod", "Container"]),
    least=st.tuples(CPU, MEMORY),
    most=st.tuples(CPU, MEMORY),
)
def test_the_other_resource_goes_on_alone(
    written: list[tuple[str | None, str | None, str | None]],
    recommended: list[tuple[str | None, str | None]],
    kind: str,
    least: tuple[str | None, str | None],
    most: tuple[str | None, str | None],
) -> None:
    """Sizes are those of a VPA that recommends nothing else, whatever LimitRanges ask for."""
    pod = make.pod(
        *(
            make.container_json(name, cpu=cpu, memory=memory, cpu_limit=limit)
            for name, (cpu, memory, limit) in zip("ab", written, strict=True)
        )
    )
    bounds = {"least": make.amounts(*least), "most": make.amounts(*most)}
    limits = make.limit_range_json(make.limits_json(kind, **bounds))
    found = []
    for is_held in (True, False):
        made = [
            make.recommendation_json(name, cpu=(cpu or "1m") if is_held else None, memory=memory)
            for name, (cpu, memory) in zip("ab", recommended, strict=True)
        ]
        hpas = [make.hpa_json(CPU_70)] if is_held else []
        view = make.snapshot(make.vpa_json(recommendations=made), limits, *hpas).of("default")
        vpa, current = view.vpas["web"], pod.current_resources
        amounts = capped(pod, vpa, view.limits, current)
        sized = {name: sizes(one, current[name], vpa, view.limits) for name, one in amounts.items()}
        found.append({name: (one.requests, one.limits) for name, one in sized.items()})
    held, alone = found
    assert held == alone


@cases(
    "recommended held",
    {
        "all that is scaled by": (BOTH, ["cpu"]),
        "the other resource": ([make.recommendation_json("app", memory="256Mi")], []),
        "another container": ([make.recommendation_json("app", cpu="200m")], []),
        "nothing": ([], []),
    },
)
def test_what_holds(recommended: list[Json], held: list[str]) -> None:
    """A metric holds what is recommended; of what a VPA leaves alone nothing is said."""
    items = [make.vpa_json(recommendations=recommended), make.hpa_json(SIDE_70)]
    vpa = make.snapshot(*items).of("default").vpas["web"]
    found = holding_metrics(vpa, vpa.recommendation or ())
    assert [one.resource for one in found] == held


def test_the_note_names_the_object() -> None:
    """What a pod says of its sizes names what scales by the resource that stayed."""
    vpa, pod = held_vpa(make.hpa_json(CPU_70)), make.pod(cpu="100m")
    current = {container.name: container.resources for container in pod.containers}
    granted = sizes(capped(pod, vpa, NO_LIMITS, current)["app"], current["app"], vpa, NO_LIMITS)
    assert granted.notes == ("cpu held: HorizontalPodAutoscaler/web scales by it",)


@cases(
    "metric expected",
    {
        "all containers": (CPU_70, "105m"),
        "one container": (SIDE_70, "35m"),
        "rounded up": (make.metric_json("cpu", 33, "side"), "17m"),
        "memory": (make.metric_json("memory", 80), "77Mi"),
    },
)
def test_the_scale_point(metric: Json, expected: str) -> None:
    """It is the share of what the pods in force request on average."""
    (found,) = read_hpa(make.hpa_json(metric)).metrics
    assert str(scale_point(found, [POD, POD])) == expected


SIDECAR = make.container_json("proxy", cpu="50m") | {"restartPolicy": "Always"}
TERMINATING = make.pod(cpu="1", metadata={"deletionTimestamp": "2026-01-05T10:00:00Z"})
BOOSTED = make.pod(cpu="800m", annotations={"vpaCpuStartupBoost/app": "{}"})


@cases(
    "pods expected",
    {
        "none": ([], "7m"),
        "no request": ([make.pod()], None),
        "no request of one container": (
            [make.pod(make.container_json("app", cpu="100m"), make.container_json("side"))],
            None,
        ),
        "no such request of one pod": ([make.pod(), make.pod(cpu="100m")], "70m"),
        "boosted": ([BOOSTED, make.pod(cpu="100m")], "70m"),
        "only boosted": ([BOOSTED], "7m"),
        "terminating": ([TERMINATING, make.pod(cpu="100m")], "70m"),
        "only terminating": ([TERMINATING], "7m"),
        "ended": ([make.pod(cpu="1", status={"phase": "Failed"}), make.pod(cpu="100m")], "70m"),
        "a request of the pod": (
            [make.pod(cpu="100m", spec={"resources": {"requests": {"cpu": "1"}}})],
            "700m",
        ),
        "no such request of the pod": (
            [make.pod(cpu="1", spec={"resources": {"requests": {"memory": "1"}}})],
            None,
        ),
        "a native sidecar": ([make.pod(cpu="100m", init=[SIDECAR])], "105m"),
        "one that is not changed": (
            [make.pod(cpu="100m", init=[SIDECAR]).without_sidecars()],
            "105m",
        ),
    },
)
def test_which_requests_make_the_scale_point(pods: list[Pod], expected: str | None) -> None:
    """Those that the algorithm divides by and that last; else the template's."""
    (found,) = read_hpa(make.hpa_json(CPU_70)).metrics
    template = make.pod(cpu="10m").containers
    assert scale_point(found, pods, template) == (expected and make.quantity(expected))


@given(
    requests=st.lists(st.integers(1, 10_000), min_size=1, max_size=5), percent=st.integers(1, 300)
)
def test_the_scale_point_is_that_of_today(requests: list[int], percent: int) -> None:
    """Usage that the HPA calls too much by shares is too much by the amount, to a millicore."""
    (found,) = read_hpa(make.hpa_json(make.metric_json("cpu", percent))).metrics
    pods = [make.pod(cpu=f"{milli}m") for milli in requests]
    point = scale_point(found, pods)
    exact = Fraction(sum(requests) * percent, 100 * len(requests))
    assert point is not None
    assert exact <= point.milli < exact + 1


@cases(
    "item patch",
    {
        "of an HPA": (
            make.hpa_json(make.metric_json("memory", "1Gi"), CPU_70),
            '[{"op":"test","path":"/spec/metrics/1/resource/name","value":"cpu"},'
            '{"op":"replace","path":"/spec/metrics/1/resource/target",'
            '"value":{"type":"AverageValue","averageValue":"70m"}}]',
        ),
        "of one container": (
            make.hpa_json(make.metric_json("cpu", 70, "app")),
            '[{"op":"test","path":"/spec/metrics/0/containerResource/name","value":"cpu"},'
            '{"op":"replace","path":"/spec/metrics/0/containerResource/target",'
            '"value":{"type":"AverageValue","averageValue":"70m"}}]',
        ),
        "of an HPA that says nothing": (
            make.hpa_json(),
            '[{"op":"add","path":"/spec/metrics","value":[{"type":"Resource","resource":'
            '{"name":"cpu","target":{"type":"AverageValue","averageValue":"70m"}}}]}]',
        ),
    },
)
def test_the_way_out(item: Json, patch: str) -> None:
    """One command turns a share into the amount that it is today."""
    hpa = read_hpa(item)
    found = way_out(hpa.namespace, hpa.metrics[-1], make.quantity("70m"))
    assert found.command == f"kubectl -n default patch hpa web --type=json -p '{patch}'"


@cases(
    "trigger more",
    {
        "today": (
            {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}},
            "",
        ),
        "as it was written once": (
            {"type": "cpu", "metadata": {"type": "Utilization", "value": "60"}},
            '{"op":"remove","path":"/spec/triggers/0/metadata/type"},',
        ),
    },
)
def test_the_way_out_of_a_scaled_object(trigger: Json, more: str) -> None:
    """KEDA makes its HPA again from the trigger, which may name its kind of target once only."""
    found = read_scaled_object(make.scaled_object_json(trigger))
    (metric,) = coupled_metrics([found])
    assert way_out(found.namespace, metric, make.quantity("70m")).command == (
        "kubectl -n default patch scaledobject web --type=json -p "
        f'\'[{{"op":"test","path":"/spec/triggers/0/type","value":"cpu"}},{more}'
        '{"op":"add","path":"/spec/triggers/0/metricType","value":"AverageValue"},'
        '{"op":"replace","path":"/spec/triggers/0/metadata/value","value":"70m"}]\''
    )

"""A workload, its pods and a workload without a VPA are shown with their usage over time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import orjson

from app.flags.command_line import parse
from app.model.fields import Json
from app.page.flags import PageSettings
from app.page.pictures import Pictures, decision_rules
from app.page.sources import FileSource
from app.page.usage_over_time import recorded_history
from app.ports import Cluster
from tests import make
from tests.cases import cases
from tests.cluster_in_memory import ClusterInMemory
from tests.make import NOW
from tests.page.core.usage_samples import minutes
from tests.page.shown import answer, file_source, pictures, shop

VPA = "/namespaces/default/vpas/web"
POD = "/namespaces/default/pods/web-0"


def used(pod: str, before: float, cpu: str) -> Json:
    """Return a sample of so many minutes before now."""
    return {
        "time": make.time(NOW - minutes(before)),
        "type": "usage",
        "namespace": "default",
        "pod": pod,
        "container": "app",
        "cpu": cpu,
        "memory": "50Mi",
    }


def shown(folder: Path, *objects: Json) -> Pictures:
    """Return the picture of some objects with a recording of usage."""
    path = folder / "events.jsonl"
    events = [used("web-0", 2, "100m"), used("web-1", 2, "300m"), used("web-7", 3, "400m")]
    path.write_bytes(b"\n".join(map(orjson.dumps, events)) + b"\n{]\n\n5\n")
    history, problems = recorded_history(path)
    seen = file_source(objects)
    source = FileSource(seen._seen, seen.clock, history, problems)
    found = Pictures(source, decision_rules(parse(PageSettings, [], {})), 10.0, None)
    found.tick(NOW)
    return found


def charts(found: Pictures, path: str) -> dict[str, list[int]]:
    """Return the medians that are known, by the title of the chart."""
    told = answer(found, path).json()["charts"]
    return {
        one["title"]: [amount for amount in one.get("usage", {}).get("median", []) if amount]
        for one in told
    }


def test_a_vpa(tmp_path: Path) -> None:
    """All pods of the workload count, also those that are gone."""
    found = shown(tmp_path, *shop())

    assert charts(found, f"{VPA}.json") == {
        "CPU of app": [400, 100],
        "Memory of app": [50 * 2**20] * 2,
    }
    assert charts(found, f"{VPA}.json?range=24h")["CPU of app"] == [300]
    assert "from events.jsonl" in answer(found, VPA).text


def test_a_role(tmp_path: Path) -> None:
    """Of a VPA that selects pods of its target only those count."""
    selector = {"matchLabels": {"no": "pod"}}
    found = shown(tmp_path, *shop(selector=selector))

    assert charts(found, f"{VPA}.json")["CPU of app"] == []


def test_a_role_by_a_lease(tmp_path: Path) -> None:
    """The pages of workload and pod, and their JSON, say which role a pod has and why."""
    selector = {"matchLabels": {"role": "leader"}}
    objects = shop(make.lease_json("web-0_4f5c"), selector=selector)
    for one in objects:
        if one["kind"] == "VerticalPodAutoscaler":
            one["metadata"]["annotations"] = {"plumbline/role-lease": "role=web"}
    found = shown(tmp_path, *objects)
    why = "leader, because Lease default/web is held by web-0_4f5c since 2026-01-05 09:00"

    assert f"<dt>Role</dt><dd>{why} (" in answer(found, VPA).text
    told = answer(found, f"{VPA}.json").json()
    assert (told["row"]["aboutRole"], [one["role"] for one in told["pods"]]) == (why, [why])
    assert f"It is {why}." in answer(found, POD).text
    assert answer(found, f"{POD}.json").json()["turns"][0]["role"] == why
    badge = f'<span class="badge" title="{why}">leader</span>'
    assert badge in answer(found, "/").text
    rows = [answer(found, f"/fleet.json?words={word}").json() for word in ("leader", "follower")]
    assert [one["found"] for one in rows] == [1, 0]


def test_a_pod(tmp_path: Path) -> None:
    """A pod has charts of its own."""
    assert charts(shown(tmp_path, *shop()), f"{POD}.json")["CPU of app"] == [100]


def test_a_workload_without_a_vpa(tmp_path: Path) -> None:
    """What is not sized is shown with what it uses."""
    objects = [one for one in shop() if one["kind"] != "VerticalPodAutoscaler"]
    path = "/namespaces/default/workloads/StatefulSet/web.json"

    assert charts(shown(tmp_path, *objects), path)["CPU of app"] == [400, 100]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """A line that is no event is named."""
    latest = shown(tmp_path, *shop()).latest

    assert latest is not None
    assert [note.rpartition("/")[2] for note in latest.notes] == ["events.jsonl:4: invalid JSON"]


def test_without_a_recording() -> None:
    """Without usage the charts say how to get it."""
    page = answer(pictures(*shop()), VPA).text

    assert "give --events to see usage over time" in page
    assert 'class="request"' in page


@cases(
    "path status told",
    {
        "unknown": (f"{VPA}?range=3d", 400, "range is one of 1h, 24h, 14d, not &#34;3d&#34;"),
        "parameter": (f"{POD}?rang=1h", 400, "did you mean &#34;range&#34;?"),
        "known": (f"{VPA}?range=14d", 200, 'href="?range=24h"'),
    },
)
def test_ranges(path: str, status: int, told: str) -> None:
    """A range that does not exist is answered with those that do."""
    found = answer(pictures(*shop()), path)

    assert found.status_code == status
    assert told in found.text


class LiveSource(FileSource):
    """Objects of a cluster that goes on."""

    cluster: Cluster | None = ClusterInMemory(lambda: NOW)  # type: ignore[assignment]  # files have none


YOUNG = "50m/50Mi 500m/500Mi"  # bounds within which pods stay as they are for half a day


def test_what_happens_next_and_when() -> None:
    """Each pod of a VPA says what comes next, as the page of the pod and `explain` do."""
    found = pictures(*shop(bounds=YOUNG))
    pods = answer(found, f"{VPA}.json").json()["pods"]
    of_pods = [answer(found, f"/namespaces/default/pods/{one['pod']}.json").json() for one in pods]

    assert [one["reason"] for one in pods] == ["InRangeTooYoung"] * 2
    assert [one["until"] for one in pods] == [make.time(NOW + timedelta(hours=9))] * 2
    assert [{"pod": one["pod"]} | one["next"] for one in pods] == [
        one["turns"][1] for one in of_pods
    ]
    assert {one["next"]["action"] for one in pods} == {"Evict", "Wait"}
    page = answer(found, VPA).text
    assert page.count(">in 9h</time>") == 2
    assert "evicts it" in page


@cases(
    "bounds flags told",
    {
        "due": ("= =", ("--min-replicas=1",), "in the next round"),
        "never": ("= =", ("--min-replicas=9",), "no change is due"),
    },
)
def test_what_is_next_without_a_time(bounds: str, flags: tuple[str, ...], told: str) -> None:
    """What is due comes with the next round; what waits for a person says that nothing is."""
    assert told in answer(pictures(*shop(bounds=bounds), flags=flags), VPA).text


def test_most_moments_are_left_to_the_pages_of_pods() -> None:
    """Only the earliest moments are planned, because each costs; others tell at least the time."""
    pods = shop(bounds=YOUNG, count=12)
    for number, pod in enumerate(pods[:12]):
        began = make.time(timedelta(hours=3, minutes=number))
        pod["status"] = pod["status"] | {"startTime": began}
    told = answer(pictures(*pods), f"{VPA}.json").json()["pods"]
    page = answer(pictures(*pods), VPA).text

    assert sorted("next" in one for one in told) == [False] * 4 + [True] * 8
    assert all(one["until"] for one in told)
    assert page.count("may change") == 4


def test_what_changed_is_on_the_chart() -> None:
    """A request that changed while the page looked on is drawn in steps."""
    seen = file_source(shop())
    rules = decision_rules(parse(PageSettings, [], {}))
    found = Pictures(LiveSource(seen._seen, seen.clock), rules, 10.0, None)
    found.tick(NOW)
    vpa = seen.snapshot.of("default").vpas["web"]
    found.log.note("default", [(vpa, [make.pod(cpu="300m")])], NOW + minutes(5))

    told = answer(found, f"{VPA}.json?range=1h").json()["charts"][0]["levels"]["request"]
    assert [amount for _, amount in told["changes"]] == [100, 300]


def test_a_role_that_moved() -> None:
    """Its chart begins where its pods came to it, and has a mark there."""
    selector = {"matchLabels": {"app": "web"}}
    seen = file_source(shop(selector=selector))
    found = Pictures(
        LiveSource(seen._seen, seen.clock), decision_rules(parse(PageSettings, [], {})), 10.0, None
    )
    pods = list(seen.snapshot.of("default").pods.values())
    other = make.vpa("other", selector=selector)
    found.log.note("default", [(other, pods)], NOW - minutes(9))
    found.tick(NOW)
    chart = answer(found, f"{VPA}.json").json()["charts"][0]

    assert "when the role moved" in chart["problem"]
    assert {one["kind"] for one in chart["marks"]} == {"role moved"}
    assert "<b>M</b>" in answer(found, VPA).text


def test_what_a_patch_holds() -> None:
    """The page writes what a new pod gets, with its limit, and no request that an HPA scales by."""
    hpa = make.hpa_json(make.metric_json("memory", 80))
    page = answer(pictures(*shop(hpa)), VPA).text
    left_out = "# left out of app: memory held: HorizontalPodAutoscaler/web scales by it"

    assert page.count(left_out) == 2
    told = {one["name"]: one for one in answer(pictures(*shop()), f"{VPA}.json").json()["copied"]}
    (container,) = told["merge"]["content"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "200m", "memory": "200Mi"},
        "limits": {"cpu": "400m"},
    }


def test_a_patch_without_the_text_of_the_workload() -> None:
    """A pod that runs, with the containers of the template, tells enough."""
    found = pictures(*shop())
    found.source.written = lambda refs: []  # type: ignore[method-assign]  # noqa: ARG005
    told = {one["name"]: one for one in answer(found, f"{VPA}.json").json()["copied"]}
    (container,) = told["merge"]["content"]["spec"]["template"]["spec"]["containers"]

    assert container["resources"]["limits"] == {"cpu": "400m"}


def test_a_patch_without_a_template() -> None:
    """Where files hold none, the pod that runs tells what its containers have."""
    objects = shop()
    for one in objects:
        if one["kind"] == "StatefulSet":
            del one["spec"]["template"]
    told = {one["name"]: one for one in answer(pictures(*objects), f"{VPA}.json").json()["copied"]}
    (container,) = told["merge"]["content"]["spec"]["template"]["spec"]["containers"]

    assert container["resources"] == {"requests": {"cpu": "200m", "memory": "200Mi"}}

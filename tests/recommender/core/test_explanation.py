"""What is explained is what stands, and every step to it adds up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from math import ceil, inf, trunc

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.fields import Json
from app.model.quantity import Quantity
from app.recommender.core.estimation import VpaDerivation
from app.recommender.core.explanation import Absence, explained
from app.recommender.core.rules import (
    CapRules,
    EstimatorRules,
    FormatRules,
    PublishRules,
    RecommenderRules,
)
from app.recommender.upstream.aggregate_model import UpstreamModel
from app.recommender.upstream.variant import as_upstream
from tests import make
from tests.cases import cases
from tests.recommender.core.scene import AT_ONCE, EAGER, GI, MI, Scene, running

LAZY = RecommenderRules(publish=PublishRules(bound_tolerance=0.5, refresh=timedelta(days=365)))
AS_UPSTREAM = as_upstream(RecommenderRules())
WEB = ("default", "web")

WORDS = ("target", "lowerBound", "upperBound")


def derived(scene: Scene, container: str = "app") -> dict[str, str]:
    """Return what the derivation of a container ends in, as `Scene.shown` does."""
    found = scene.explained(container)
    cpu, memory = found["derivation"]["cpu"], found["derivation"]["memory"]
    words = ("target", "lowerBound", "upperBound")
    return {word: f"{cpu[word]['quantity']} {memory[word]['quantity']}" for word in words}


def steps(scene: Scene, derivation: VpaDerivation) -> Json:
    """Return all that a derivation explains."""
    vpa = scene.vpas["web"].vpa
    return explained([(vpa, derivation)], scene.rules, with_steps=True)[0]


def published(scene: Scene, container: str = "app") -> dict[str, str]:
    """Return what is published of a container, in the same words."""
    shown = scene.shown()[container]
    words = {"target": "target", "lowerBound": "lower", "upperBound": "upper"}
    return {word: shown[name] for word, name in words.items()}


@cases(
    "begin",
    {
        "every change": (lambda: Scene(EAGER),),
        "slight moves wait": (lambda: Scene(LAZY),),
        "as upstream": (lambda: Scene(AS_UPSTREAM, model=UpstreamModel),),
    },
)
def test_they_end_in_what_stands(begin: Callable[[], Scene]) -> None:
    """After every tick the derivation leads to the status, also where newer numbers wait."""
    scene = begin()
    scene.vpa(policies=[make.policy_json("*", max_allowed={"cpu": "1500m"})])
    scene.pod("web-0", "app", "log")
    for minute in range(90):
        scene.go(minute)
        scene.use(1000 + minute, GI)
        scene.use(10 * minute, 300 * MI, container="log")
        scene.tick()

        assert derived(scene) == published(scene)
        assert derived(scene, "log") == published(scene, "log")
        assert set(scene.explained()["origin"].values()) == {"computed"}  # the uncapped target too


def lazy() -> Scene:
    """Return a scene in which slight moves wait, after ten hours of steady usage."""
    scene = running(LAZY)
    for minute in range(600):
        scene.go(minute)
        scene.use(1000, GI)
        scene.tick()
    return scene


def test_slight_moves_leave_them_alone() -> None:
    """What is told of a number is how it was made, not how it would be made now."""
    scene = lazy()
    found = scene.model.derivations()[WEB]

    told = scene.explained()
    assert found.at < scene.now
    assert told["evidence"]["samples"] < 600
    assert told["origin"] == {"cpu": "computed", "memory": "computed"}


def test_they_are_there_after_a_restart() -> None:
    """What stands is explained at once, also where it is not worth a write yet."""
    scene = lazy()
    before = published(scene)
    scene.restart()
    scene.go(601)
    assert scene.tick() == []

    assert derived(scene)["target"] == published(scene)["target"] == before["target"]
    assert derived(scene)["lowerBound"] != before["lowerBound"]


def test_a_kill_renews_them() -> None:
    """What is published between two ticks can be derived at once."""
    scene = running()
    scene.use(100, GI)
    scene.tick()
    scene.go(0.5)
    scene.killed(2 * GI)
    scene.tick(urgent=True)

    assert derived(scene) == published(scene)
    assert Quantity.parse(derived(scene)["target"].split()[1]) > Quantity.parse("2Gi")


def test_what_is_held_stays() -> None:
    """Later ticks change nothing in what was handed out."""
    scene = running(EAGER)
    scene.use(100, GI)
    scene.tick()
    held = scene.model.derivations()
    before = steps(scene, held[WEB])["containers"][0]["derivation"]
    scene.go(1)
    scene.use(9000, 8 * GI)
    scene.tick()

    assert steps(scene, held[WEB])["containers"][0]["derivation"] == before
    assert scene.explained()["derivation"] != before
    with pytest.raises(ValueError, match="read-only"):
        held[WEB].basis["samples"] = 0


def test_gone_vpas_take_them_along() -> None:
    """Nothing is kept of a VPA that is gone, and nothing is there before the first tick."""
    scene = running()
    assert scene.model.derivations() == {}
    scene.tick()
    assert scene.model.derivations().keys() == {WEB}
    scene.model.vpa_gone(WEB, scene.now)
    del scene.vpas["web"]
    scene.tick()

    assert scene.model.derivations() == {}


def test_without_containers() -> None:
    """A VPA without containers has no lines; as upstream there is nothing before a loop."""
    scene = Scene()
    scene.vpa()
    scene.tick()
    found = scene.model.derivations()[WEB]

    assert (found.containers, steps(scene, found)["containers"]) == ((), [])
    assert Scene(AS_UPSTREAM, model=UpstreamModel).model.derivations() == {}


def told(scene: Scene, *, explains: bool = True) -> Json:
    """Return what is told of the VPA, as it comes out of JSON."""
    derivation = scene.model.derivations().get(("default", "web"))
    found = explained([(scene.vpas["web"].vpa, derivation)], scene.rules, with_steps=explains)[0]
    read: Json = orjson.loads(orjson.dumps(found))
    return read


def used(rules: RecommenderRules | None = None, policy: Json | None = None) -> Scene:
    """Return a scene with an hour of usage of one container."""
    scene = Scene(rules or EAGER)
    scene.vpa(policies=None if policy is None else [policy])
    scene.pod()
    for minute in range(61):
        scene.go(minute)
        scene.use(1000, GI)
    scene.tick()
    return scene


def test_all_of_a_vpa() -> None:
    """Amounts as in the status, on what they rest, and what capped them."""
    scene = used(policy=make.policy_json("app", max_allowed={"cpu": "1"}))

    assert told(scene, explains=False) == {
        "namespace": "default",
        "name": "web",
        "updateMode": "Recreate",
        "recommender": "default",
        "target": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "generation": scene.vpas["web"].vpa.generation,
        "observedGeneration": scene.vpas["web"].vpa.observed_generation,
        "conditions": [
            {
                "type": "RecommendationProvided",
                "status": "True",
                "reason": "",
                "message": "",
                "lastTransitionTime": "2026-01-05T01:00:00Z",
            }
        ],
        "computedAt": "2026-01-05T01:00:00Z",
        "containers": [
            {
                "container": "app",
                "target": {"cpu": "1", "memory": "1238659775"},
                "lowerBound": {"cpu": "1", "memory": "1181278014"},
                "upperBound": {"cpu": "1", "memory": "30966494375"},
                "uncappedTarget": {"cpu": "1168m", "memory": "1238659775"},
                "origin": {"cpu": "computed", "memory": "computed"},
                "absence": "",
                "evidence": {
                    "samples": 61,
                    "firstSample": "2026-01-05T00:00:00Z",
                    "lastSample": "2026-01-05T01:00:00Z",
                    "spanSeconds": 3600.0,
                    "livingContainers": 1,
                    "confidence": {"cpu": pytest.approx(1 / 24), "memory": pytest.approx(1 / 24)},
                },
                "cappedBy": {"cpu": dict.fromkeys(WORDS, "maxAllowed")},
            }
        ],
    }


def test_every_step() -> None:
    """From the bucket of the percentile to the quantity, in amounts of one unit."""
    scene = used(policy=make.policy_json("app", max_allowed={"cpu": "1"}))
    cpu = told(scene)["containers"][0]["derivation"]["cpu"]

    assert {word: cpu[word] for word in cpu.keys() - {*WORDS, "samplesWeight", "confidence"}} == {
        "unit": "millicores",
        "isShown": True,
        "referenceTime": "2026-01-05T00:00:00Z",
        "marginFraction": 0.15,
        "roundedUpTo": 1,
        "isWholeCores": False,
        "isHumanized": False,
    }
    assert cpu["lowerBound"] == {
        "percentile": 0.5,
        "bucket": 36,
        "bucketStart": pytest.approx(958.36, abs=0.01),
        "percentileAmount": 1016,
        "withMargin": 1168,
        "multiplier": pytest.approx(0.9537, abs=1e-4),
        "withConfidence": 1113,
        "floor": 25,
        "withFloor": 1113,
        "rounded": 1113,
        "cappedBy": "maxAllowed",
        "capped": 1000,
        "quantity": "1",
    }


def test_the_flag_is_named() -> None:
    """A cap that no policy asks for is the flag's."""
    caps = CapRules(max_allowed_memory=Quantity.parse("500Mi"))
    scene = used(RecommenderRules(publish=AT_ONCE, caps=caps))
    found = told(scene)["containers"][0]

    flag = "--container-recommendation-max-allowed-memory"
    assert found["cappedBy"] == {"memory": dict.fromkeys(WORDS, flag)}
    assert found["derivation"]["memory"]["target"]["cappedBy"] == flag


def test_what_was_kept() -> None:
    """Where something else stands than was computed, that is told; so is what is not known."""
    scene = used(policy=make.policy_json("app", max_allowed={"cpu": "1"}))
    vpa = scene.vpas["web"].vpa
    (found,) = vpa.recommendation or ()
    other = replace(found, target={**found.target, "cpu": make.quantity("7")})
    scene.change(replace(vpa, recommendation=(other, replace(found, container="ghost"))))

    app, ghost = told(scene)["containers"]
    assert app["target"]["cpu"] == "7"
    assert app["origin"] == {"cpu": "kept", "memory": "computed"}
    assert app["cappedBy"] == {"cpu": dict.fromkeys(("lowerBound", "upperBound"), "maxAllowed")}
    assert app["derivation"]["cpu"]["target"]["quantity"] == "1"
    assert (ghost["origin"], ghost["evidence"]) == ({"cpu": None, "memory": None}, None)
    assert "derivation" not in ghost


def test_without_a_derivation() -> None:
    """With the status alone, nothing else is told."""
    scene = used()
    (found,) = explained([(scene.vpas["web"].vpa, None)], scene.rules, with_steps=True)

    assert found["computedAt"] is None
    assert found["containers"][0]["target"]["cpu"] == "1168m"
    assert found["containers"][0]["evidence"] is None


def test_before_anything_is_known() -> None:
    """A VPA without target and history has a place, and its containers a reason."""
    scene = running()
    scene.tick()
    scene.change(replace(scene.vpas["web"].vpa, target=None))
    found = told(scene)

    assert found["target"] is None
    assert found["containers"][0]["absence"] == "nothing was learned of it yet"
    assert found["containers"][0]["target"] == {}
    assert found["containers"][0]["evidence"]["firstSample"] is None
    assert found["containers"][0]["derivation"]["cpu"]["isShown"] is False
    assert found["containers"][0]["derivation"]["cpu"]["upperBound"]["multiplier"] is None


# --- every step adds up

AMOUNTS = st.sampled_from(["1m", "30m", "1500u", "1", "2500m", "9", "100m"])
SIZES = st.sampled_from(["1", "1Mi", "200M", "1Gi", "1500m", "5Gi", "1e10"])


@st.composite
def policies(draw: st.DrawFn) -> Json:
    """Return any policy of a container."""

    def some() -> dict[str, str] | None:
        found = {"cpu": draw(st.none() | AMOUNTS), "memory": draw(st.none() | SIZES)}
        return {name: text for name, text in found.items() if text is not None} or None

    controlled = draw(st.sampled_from([None, ["cpu"], ["memory"], ["cpu", "memory"]]))
    return make.policy_json("app", min_allowed=some(), max_allowed=some(), resources=controlled)


RULES = st.builds(
    RecommenderRules,
    estimator=st.builds(
        EstimatorRules,
        margin_fraction=st.sampled_from([0.0, 0.15, 0.5, 3.7]),
        min_cpu_millicores=st.sampled_from([0.0, 25.0, 333.3]),
        min_memory_mib=st.sampled_from([0.0, 250.0, 4000.0]),
        omit_unsampled=st.booleans(),
    ),
    format=st.builds(
        FormatRules,
        round_cpu_millicores=st.sampled_from([1, 5, 100]),
        round_memory_bytes=st.sampled_from([1, 1000, 2**20]),
        humanize_memory=st.booleans(),
    ),
    caps=st.builds(
        CapRules,
        integer_cpu=st.booleans(),
        max_allowed_cpu=st.none() | AMOUNTS.map(Quantity.parse),
        max_allowed_memory=st.none() | SIZES.map(Quantity.parse),
    ),
    publish=st.sampled_from([AT_ONCE, PublishRules()]),
)
USES = st.lists(
    st.tuples(
        st.integers(0, 40),  # minutes since the one before
        st.integers(0, 20_000),
        st.integers(0, 20 * GI),
        st.booleans(),  # whether a tick follows
    ),
    max_size=12,
)


@given(rules=RULES, policy=policies(), whole=st.booleans(), uses=USES)
@settings(max_examples=150, deadline=None)
def test_steps_multiply_out(
    rules: RecommenderRules,
    policy: Json,
    whole: bool,
    uses: list[tuple[int, int, int, bool]],
) -> None:
    """Computing along with what is told leads to the published amounts."""
    scene = Scene(rules)
    annotations = {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"} if whole else None
    scene.vpa(policies=[policy], annotations=annotations)
    scene.pod()
    minute = 0
    for pause, cpu, memory, ticks in uses:
        scene.go(minute := minute + pause)
        scene.use(cpu, memory)
        if ticks:
            scene.tick()
    scene.tick()

    for found in told(scene)["containers"]:
        for resource, way in found["derivation"].items():
            for word in WORDS:
                add_up(way, way[word], word)
            if way["isShown"]:
                adds_up_to_published(found, resource, way)
            else:
                assert resource not in found["target"]


def add_up(way: Json, steps: Json, word: str) -> None:
    """Compute along."""
    base = steps["percentileAmount"]
    margin = trunc(base * way["marginFraction"])
    assert steps["withMargin"] == base + min(margin, 10**14)
    confidence = way["confidence"]
    expected = {
        "target": 1.0,
        "lowerBound": (1 + 0.001 / confidence) ** -2 if confidence else 0.0,
        "upperBound": 1 + 1 / confidence if confidence else inf,
    }[word]
    multiplier = inf if steps["multiplier"] is None else steps["multiplier"]
    assert multiplier == pytest.approx(expected, rel=1e-12)
    scaled = steps["withMargin"] * multiplier if steps["withMargin"] else 0
    assert steps["withConfidence"] == trunc(min(scaled, 1e14))
    assert steps["withFloor"] == max(steps["withConfidence"], steps["floor"])
    step = way["roundedUpTo"]
    rounded = ceil(Fraction(steps["withFloor"], step)) * step
    if way["isWholeCores"]:
        rounded = ceil(Fraction(rounded, 1000)) * 1000
    if way["isHumanized"] and rounded >= 1024:
        assert steps["rounded"] == pytest.approx(rounded, rel=0.01)
    else:
        assert steps["rounded"] == rounded
    if not steps["cappedBy"]:
        assert steps["capped"] == steps["rounded"]


def adds_up_to_published(found: Json, resource: str, way: Json) -> None:
    """Compare the ends of all ways with what stands, within its caps."""
    assert found["origin"][resource] == "computed"
    per_unit = 1000 if resource == "cpu" else 1
    for word in WORDS:
        steps = way[word]
        amount = Quantity.parse(found[word][resource])
        assert found[word][resource] == steps["quantity"]
        if not steps["cappedBy"]:
            assert float(Fraction(amount.nano * per_unit, 10**9)) == steps["capped"]
        assert found["cappedBy"].get(resource, {}).get(word, "") == steps["cappedBy"]
    uncapped = Quantity.parse(found["uncappedTarget"][resource])
    assert float(Fraction(uncapped.nano * per_unit, 10**9)) == way["target"]["rounded"]


def test_absence() -> None:
    """Why a container is not recommended for."""
    scene = Scene(EAGER)
    scene.vpa(policies=[make.policy_json("log", mode="Off")])
    scene.pod("web-0", "app", "log", "old", "new")
    for container in ("app", "log", "old"):
        scene.use(100, GI, container=container)
    scene.pod("web-1", "app", "log", "new")
    scene.drop("web-0")
    scene.tick()
    scene.go(25 * 60)
    scene.tick()

    found = {name: scene.explained(name)["absence"] for name in ("app", "log", "old", "new")}

    assert found == {
        "app": Absence.NONE,
        "log": Absence.OFF,
        "old": Absence.STALE,
        "new": Absence.NO_SAMPLES,
    }
    target = scene.explained("new")["derivation"]["cpu"]["target"]
    assert (target["bucket"], target["bucketStart"], target["percentileAmount"]) == (None, None, 0)

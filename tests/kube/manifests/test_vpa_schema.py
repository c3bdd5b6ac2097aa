"""The constraints of a VerticalPodAutoscaler, one table per kind."""

from enum import StrEnum

from app.model.update_modes import UpdateMode
from app.model.vpa import BoostType, ChangeRequirement, ControlledValues, ScalingMode
from tests.kube.manifests.definitions import VPA as V1
from tests.kube.manifests.definitions import VPA_V1BETA2 as V1BETA2
from tests.kube.manifests.structural import facts, fields

POLICY = "spec.resourcePolicy.containerPolicies[]"
CONDITION = "status.conditions[]"


def test_required_fields() -> None:
    """Little is required; what is missing elsewhere has a default."""
    assert V1["required"] == ["spec"]
    assert facts(V1, "required") == {
        "spec": ["targetRef"],
        "spec.targetRef": ["kind", "name"],
        "spec.selector.matchExpressions[]": ["key", "operator"],
        "spec.updatePolicy.evictionRequirements[]": ["resources", "changeRequirement"],
        f"{POLICY}.startupBoost.cpu": ["type"],
        "spec.startupBoost.cpu": ["type"],
        "spec.recommenders[]": ["name"],
        "status.recommendation.containerRecommendations[]": ["target"],
        CONDITION: ["type", "status"],
    }


def test_words() -> None:
    """Closed sets are the model's; resource names are open, for objects older than this."""
    wanted: dict[str, type[StrEnum]] = {
        "spec.updatePolicy.updateMode": UpdateMode,
        "spec.updatePolicy.evictionRequirements[].changeRequirement": ChangeRequirement,
        f"{POLICY}.mode": ScalingMode,
        f"{POLICY}.controlledValues": ControlledValues,
        f"{POLICY}.startupBoost.cpu.type": BoostType,
        "spec.startupBoost.cpu.type": BoostType,
    }
    assert {path: set(words) for path, words in facts(V1, "enum").items()} == {
        path: set(words) for path, words in wanted.items()
    }


def test_words_are_explained() -> None:
    """Wherever a field takes one of several words, its description has a line on each."""
    descriptions = facts(V1, "description")
    assert [
        (path, word)
        for path, words in facts(V1, "enum").items()
        for word in words
        if f"\n- {word}: " not in descriptions[path]
    ] == []


def test_numbers() -> None:
    """Whole numbers have a width and, where the schema alone can tell, a lower bound."""
    formats = facts(V1, "format")
    minimums = facts(V1, "minimum")

    assert {
        path: (formats[path], minimums.get(path))
        for path, below in fields(V1)
        if below.get("type") == "integer"
    } == {
        "spec.updatePolicy.minReplicas": ("int32", None),
        "spec.updatePolicy.evictAfterOOMSeconds": ("int32", 1),
        f"{POLICY}.memoryAggregationIntervalSeconds": ("int32", 1),
        f"{POLICY}.memoryAggregationIntervalCount": ("int64", 1),
        f"{POLICY}.startupBoost.cpu.factor": ("int32", 1),
        f"{POLICY}.startupBoost.cpu.durationSeconds": ("int32", 0),
        "spec.startupBoost.cpu.factor": ("int32", 1),
        "spec.startupBoost.cpu.durationSeconds": ("int32", 0),
        f"{CONDITION}.observedGeneration": ("int64", 0),
        "status.observedGeneration": ("int64", 0),
    }


def test_quantities() -> None:
    """Amounts are numbers or strings, alone or by resource name."""
    recommended = "status.recommendation.containerRecommendations[]"

    assert set(facts(V1, "x-kubernetes-int-or-string")) == {
        f"{POLICY}.minAllowed{{}}",
        f"{POLICY}.maxAllowed{{}}",
        f"{POLICY}.oomBumpUpRatio",
        f"{POLICY}.oomMinBumpUp",
        f"{POLICY}.startupBoost.cpu.quantity",
        "spec.startupBoost.cpu.quantity",
        f"{recommended}.target{{}}",
        f"{recommended}.lowerBound{{}}",
        f"{recommended}.upperBound{{}}",
        f"{recommended}.uncappedTarget{{}}",
    }


def test_what_is_replaced_as_a_whole() -> None:
    """Owners of fields share neither a reference nor a selector; other lists are unmarked."""
    assert facts(V1, "x-kubernetes-map-type") == {
        "spec.targetRef": "atomic",
        "spec.selector": "atomic",
    }
    assert facts(V1, "x-kubernetes-list-type") == {
        "spec.selector.matchExpressions": "atomic",
        "spec.selector.matchExpressions[].values": "atomic",
    }


def test_rules() -> None:
    """CEL rules stand only where the schema cannot tell, and each has a message of its own."""
    found = facts(V1, "x-kubernetes-validations")

    assert set(found) == {f"{POLICY}.startupBoost.cpu", "spec.startupBoost.cpu"}
    for rules in found.values():
        assert [rule["rule"] for rule in rules] == [
            "(self.type == 'Factor') == has(self.factor)",
            "(self.type == 'Quantity') == has(self.quantity)",
            "!(has(self.duration) && has(self.durationSeconds))",
        ]
        assert len({rule["message"] for rule in rules}) == len(rules)
        assert all(rule.keys() == {"rule", "message"} for rule in rules)


def test_no_list_is_bounded() -> None:
    """An object of any size that was stored before stays acceptable."""
    for bound in ("maxItems", "maxLength", "maxProperties", "minItems", "uniqueItems"):
        assert facts(V1, bound) == {}


def test_v1beta2() -> None:
    """The old version is v1 less what came later."""
    gone = {path for path, _ in fields(V1)} - {path for path, _ in fields(V1BETA2)}
    topmost = {
        path for path in gone if not any(path.startswith((f"{up}.", f"{up}[")) for up in gone)
    }

    assert topmost == {
        "spec.recommenders",
        "spec.selector",
        "spec.startupBoost",
        "spec.updatePolicy.minReplicas",
        "spec.updatePolicy.evictionRequirements",
        "spec.updatePolicy.evictAfterOOMSeconds",
        f"{POLICY}.controlledResources",
        f"{POLICY}.controlledValues",
        f"{POLICY}.oomBumpUpRatio",
        f"{POLICY}.oomMinBumpUp",
        f"{POLICY}.memoryAggregationIntervalSeconds",
        f"{POLICY}.memoryAggregationIntervalCount",
        f"{POLICY}.startupBoost",
        "status.observedGeneration",
        f"{CONDITION}.observedGeneration",
    }
    assert {path for path, _ in fields(V1BETA2)} <= {path for path, _ in fields(V1)}
    modes = facts(V1BETA2, "enum")["spec.updatePolicy.updateMode"]
    assert modes == ["Off", "Initial", "Recreate", "Auto"]

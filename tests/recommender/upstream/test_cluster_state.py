"""Label sets, and which VPAs select them, as upstream keeps them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.model.pods import Pod
from app.model.selectors import EVERYTHING, NOTHING, Selector
from app.recommender.core.moments import DAY
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.targets import ObservedVpa
from app.recommender.upstream.cluster_state import Selections, UpstreamCluster
from app.recommender.upstream.variant import as_upstream
from tests import make

WEB, SHOP = {"app": "web"}, {"app": "shop"}
ONE, TWO, ELSEWHERE = ("default", "one"), ("default", "two"), ("other", "one")

RULES = as_upstream(RecommenderRules(per_vpa_config=True))
OF_WEB = Selector.of_labels({"app": "web"})


@pytest.mark.parametrize("labels_first", [True, False])
def test_selections(labels_first: bool) -> None:
    """VPAs of the namespace that select the labels are found, before and after they change."""
    found = Selections()
    if labels_first:
        assert not found.of("default", WEB, "app=web")
        assert not found.of("default", SHOP, "app=shop")
    found.put(ONE, Selector.of_labels(WEB))
    found.put(TWO, Selector.of_labels({}))
    found.put(ELSEWHERE, Selector.of_labels(WEB))
    assert set(found.of("default", WEB, "app=web")) == {ONE, TWO}
    assert set(found.of("default", SHOP, "app=shop")) == {TWO}
    assert set(found.of("other", WEB, "app=web")) == {ELSEWHERE}

    found.put(ONE, NOTHING)
    assert set(found.of("default", WEB, "app=web")) == {TWO}
    found.drop(TWO)
    assert not found.of("default", WEB, "app=web")


def observed(
    name: str = "web", *, ratio: str | None = None, namespace: str = "default"
) -> ObservedVpa:
    """Return a VPA of the web pods."""
    policies = [make.policy_json("*", oomBumpUpRatio=ratio)] if ratio else None
    return ObservedVpa(make.vpa(name, policies=policies, namespace=namespace), OF_WEB)


def pod(name: str = "web-0", *, namespace: str = "default", **labels: str) -> Pod:
    """Return a running web pod."""
    found = {"app": "web"} | labels
    return make.pod(name=name, namespace=namespace, labels=found, status={"phase": "Running"})


def loaded(*pods: Pod, vpas: tuple[ObservedVpa, ...] = ()) -> UpstreamCluster:
    """Return a cluster with VPAs, then pods."""
    cluster = UpstreamCluster(RULES)
    cluster.now_ns = 20_000 * DAY
    cluster.load_vpas(vpas)
    cluster.load_pods({(one.namespace, one.name): one for one in pods})
    return cluster


def test_links_come_whichever_comes_first() -> None:
    """An aggregate is offered to every VPA, and every VPA is offered all aggregates."""
    first = loaded(pod(), vpas=(observed(),))
    second = loaded(pod())
    second.load_vpas([observed()])

    for cluster in (first, second):
        assert list(cluster.vpas["default", "web"].links) == [("default", "app=web", "app")]


def test_namespaces_are_apart() -> None:
    """Equal labels in two namespaces are two aggregates."""
    cluster = loaded(pod(), pod(namespace="other"), vpas=(observed(), observed(namespace="other")))

    assert len(cluster.aggregates) == 2
    assert cluster.matching_pods() == {("default", "web"): 1, ("other", "web"): 1}


def test_policies_reach_what_is_linked() -> None:
    """A policy that changes reaches aggregates that are linked already, and new ones."""
    cluster = loaded(pod(), vpas=(observed(),))
    cluster.load_vpas([observed(ratio="3")])
    cluster.load_pods({("default", "web-1"): pod("web-1", a="b")})

    ratios = [aggregate.settings.bump_up_ratio for aggregate in cluster.aggregates.values()]
    assert ratios == [3.0, 3.0]


def test_selector_makes_a_vpa_anew() -> None:
    """A changed selector forgets what checkpoints gave."""
    cluster = loaded(pod(), vpas=(observed(),))
    before = cluster.vpas["default", "web"]
    cluster.load_vpas([observed()])
    assert cluster.vpas["default", "web"] is before

    cluster.load_vpas([replace(observed(), selector=Selector.of_labels({"a": "b"}))])

    assert cluster.vpas["default", "web"] is not before
    assert cluster.vpas["default", "web"].links == {}


def test_views_merge_the_filled_before_the_empty() -> None:
    """An aggregate without samples takes over the reference of those with."""
    cluster = loaded(pod("web-0"), pod("web-1", a="b"), vpas=(observed(),))
    one, other = cluster.aggregates.values()
    other.add_cpu(100, 20_000 * DAY)
    other.add_peak(100, 20_000 * DAY)
    cluster.view(cluster.vpas["default", "web"])

    assert one.cpu.reference_ns == one.memory.reference_ns == 20_000 * DAY


def test_a_target_that_is_gone_keeps_no_empty_aggregate() -> None:
    """Even a VPA that still selects everything keeps pods that are over only with its target."""
    every = replace(observed(), selector=EVERYTHING)
    over = make.pod(status={"phase": "Succeeded"})
    cluster = loaded(over, vpas=(every,))
    cluster.collect()
    assert len(cluster.aggregates) == 1

    cluster.now_ns += DAY
    cluster.load_vpas([replace(every, selector=None)])
    cluster.collect()

    assert cluster.aggregates == {}

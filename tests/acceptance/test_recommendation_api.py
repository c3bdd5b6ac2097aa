"""A real API server settles who may ask for recommendations, with the rights that are shipped.

Strategy: the recommender listens on loopback under a name that it does not take for loopback, so
it asks for tokens as it does in a cluster. Nothing else than its port is asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest

from app.kube.access_review import AUDIENCE, AccessReviews
from app.kube.client import connect
from app.kube.reach import Origin
from app.ports import NAMESPACES, PODS, VPAS, Resource
from app.runtime.access import Caller, Guard
from app.runtime.answers import Refusal
from app.runtime.clock import SystemClock
from tests.acceptance.cluster import Cluster
from tests.acceptance.logs import Logs
from tests.acceptance.rights import GROUP, account_token, allow, token
from tests.acceptance.space import APP, Box, Space, new_space
from tests.cluster.api import SERVICE_ACCOUNTS, Api
from tests.cluster.programs import Program, eventually, free_port
from tests.reached_limits import ReachedLimits

_ROOT: Final = Path(__file__).parents[2]
_WITHDRAWN_SECONDS: Final = 30.0  # until what was believed is asked anew, and a busy machine
ONE: Final = "/v1/namespaces/{here}/recommendations/vpa"
OTHER: Final = "/v1/namespaces/{here}/recommendations/other"
HERE: Final = "/v1/namespaces/{here}/recommendations"
POD: Final = "/v1/namespaces/{here}/pods/{pod}"
ELSEWHERE: Final = "/v1/namespaces/default/recommendations"
EVERYWHERE: Final = "/v1/recommendations"
NUMBERS: Final = "/metrics/recommendations"


@dataclass(frozen=True, slots=True)
class Office:
    """A recommender, a namespace with a VPA and a pod, and accounts that may see some of it."""

    url: str
    space: Space
    pod: str
    tokens: dict[str, str]

    def ask(self, path: str, who: str) -> httpx.Response:
        """Ask as somebody."""
        path = path.format(here=self.space.name, pod=self.pod)
        token = self.tokens[who]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.get(self.url + path, headers=headers, timeout=30)


def account(admin: Api, namespace: str, name: str, audience: str = "") -> str:
    """Create an account; return a token of it, for the API server or somebody else."""
    kind = {"apiVersion": "v1", "kind": "ServiceAccount"}
    if admin.find(SERVICE_ACCOUNTS, namespace, name) is None:
        admin.create({**kind, "metadata": {"name": name, "namespace": namespace}})
    return token(admin, namespace, name, **({"audiences": [audience]} if audience else {}))


def allow_get(
    admin: Api, namespace: str, name: str, *names: str, resource: Resource = VPAS
) -> None:
    """Let an account get the objects of a kind in its namespace, or some of them."""
    rule = {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": ["get"]}
    account, role = {"name": name, "namespace": namespace}, f"{name}-{resource.plural}"
    allow(admin, namespace, role, {**rule, "resourceNames": [*names]}, account)


@pytest.fixture(scope="module")
def office(
    cluster: Cluster, logs: Logs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Office]:
    """Everything in its place."""
    admin, folder, port = cluster.admin, tmp_path_factory.mktemp("api"), free_port()
    space = new_space(admin)
    kubeconfig = cluster.access.kubeconfig(
        folder / "recommender.kubeconfig", account_token(admin, "recommender")
    )
    flags = (f"--kubeconfig={kubeconfig}", f"--address=127.1:{port}")
    program = Program(
        "recommender-asked",
        [sys.executable, "-m", "app", "recommender", *flags],
        folder / "recommender.log",
        {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_ROOT)},
    )
    logs.add(program.name, program.log)
    try:
        program.start()
        yield settled(space, program, f"http://127.0.0.1:{port}")
    finally:
        program.kill()
        admin.delete(NAMESPACES, "", space.name)


def settled(space: Space, program: Program, url: str) -> Office:
    """Return the office once the recommender knows it."""
    admin, here = space.admin, space.name
    space.deployment(Box(requests="100m/100Mi"), replicas=1)
    for name in ("vpa", "other"):
        space.vpa(name)
        space.recommend({APP: "200m/200Mi"}, name)
    names = ("reader", "podless", "one", "stranger", "late")
    tokens = {name: account(admin, here, name) for name in names}
    for name in ("reader", "podless", "late"):
        allow_get(admin, here, name)
    allow_get(admin, here, "one", "vpa")
    allow_get(admin, here, "reader", resource=PODS)
    tokens |= {
        "admin": admin.token,
        "nobody": "",
        "garbage": "abc.def.ghi",
        "for us alone": account(admin, here, "reader", AUDIENCE),
        "misdirected": account(admin, here, "reader", "somebody-else"),
    }
    (pod,) = space.pods(1)
    found = Office(url, space, pod["metadata"]["name"], tokens)

    def look() -> bool:
        try:
            return found.ask(ONE, "admin").status_code == 200
        except httpx.HTTPError:
            return False

    program.wait_until(look)
    return found


@pytest.mark.parametrize(
    ("who", "path", "status"),
    [
        ("admin", EVERYWHERE, 200),
        ("admin", POD, 200),
        ("reader", HERE, 200),
        ("reader", ONE, 200),
        ("reader", OTHER, 200),
        ("reader", POD, 200),
        ("reader", ELSEWHERE, 403),
        ("reader", EVERYWHERE, 403),
        ("for us alone", ONE, 200),
        ("for us alone", POD, 200),
        ("for us alone", ELSEWHERE, 403),
        ("podless", ONE, 200),
        ("podless", POD, 403),
        ("one", ONE, 200),
        ("one", OTHER, 403),
        ("one", HERE, 403),
        ("one", POD, 403),
        ("stranger", HERE, 403),
        ("stranger", ONE, 403),
        ("nobody", ONE, 401),
        ("garbage", ONE, 401),
        ("misdirected", ONE, 401),
        ("admin", NUMBERS, 200),
        ("reader", NUMBERS, 403),
        ("nobody", NUMBERS, 401),
    ],
)
def test_who_may_see_what(office: Office, who: str, path: str, status: int) -> None:
    """Who may get the VPAs of a namespace may ask there, and nobody else; all else is not told.

    A token for us alone is good here, although the API server takes none like it for itself.
    """
    answer = office.ask(path, who)
    assert answer.status_code == status, answer.text
    assert ("www-authenticate" in answer.headers) is (status == 401)
    if status == 200 and path == ONE:
        assert answer.json()["containers"][0]["target"] == {"cpu": "200m", "memory": "200Mi"}
    if status == 403:
        name = "reader" if who == "for us alone" else who
        assert f"system:serviceaccount:{office.space.name}:{name}" in answer.json()["detail"]


def test_what_is_not_there_is_told_to_those_who_may_know(office: Office) -> None:
    """Whether a VPA exists is a secret to all who may not see it."""
    path = "/v1/namespaces/{here}/recommendations/nowhere"
    assert office.ask(path, "reader").status_code == 404
    assert office.ask(path, "stranger").status_code == 403
    assert office.ask(path, "nobody").status_code == 401


def test_probes_and_numbers_need_no_token(office: Office) -> None:
    """Kubelets and Prometheus have none."""
    for path in ("/health-check", "/readyz", "/metrics"):
        assert office.ask(path, "nobody").status_code == 200


def test_rights_and_accounts_that_go(office: Office) -> None:
    """A right that was taken away, and a token whose account is gone, soon count no more."""
    admin, here = office.space.admin, office.space.name
    assert office.ask(HERE, "late").status_code == 200
    path = f"/apis/{GROUP}/v1/namespaces/{here}/rolebindings/late-{VPAS.plural}"
    admin.call("DELETE", path)
    until_told(office, 403)
    admin.delete(SERVICE_ACCOUNTS, here, "late")
    until_told(office, 401)


def until_told(office: Office, status: int) -> None:
    """Return when what was believed of the account that is late is asked again."""
    eventually(
        lambda: office.ask(HERE, "late").status_code == status,
        f"{status} is told",
        seconds=_WITHDRAWN_SECONDS,
    )


def test_a_recommender_that_may_not_ask_who_asks(cluster: Cluster, tmp_path: Path) -> None:
    """Without the right to review tokens nobody is let in, and the answer says what is missing."""
    poor = account(cluster.admin, "default", "without-rights")
    kubeconfig = cluster.access.kubeconfig(tmp_path / "kubeconfig", poor)
    kube = connect(origin=Origin(str(kubeconfig)))
    guard = Guard(AccessReviews(kube.within(10), SystemClock(), ReachedLimits()))
    with pytest.raises(Refusal, match=r"bind .* system:auth-delegator") as refused:
        guard.admit(Caller(f"Bearer {cluster.admin.token}"), "get", "default")
    assert refused.value.status == 503
    kube.close()
    cluster.admin.delete(SERVICE_ACCOUNTS, "default", "without-rights")

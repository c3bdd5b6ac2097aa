"""Accounts and roles for our processes: those that are shipped, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from app.kube.manifests.documents import PROCESSES, objects
from tests.cluster.api import Api, Json

NAMESPACE: Final = "kube-system"
_KINDS: Final = {
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
}
_TOKEN_SECONDS: Final = 7200


def rights() -> Iterator[Json]:
    """Yield what is shipped about who may do what."""
    for verb in PROCESSES:
        yield from (item for item in objects(verb) if item["kind"] in _KINDS)


def _account(verb: str) -> str:
    """Return the name of a process's account."""
    (found,) = (item for item in objects(verb) if item["kind"] == "ServiceAccount")
    return str(found["metadata"]["name"])


def prepare(admin: Api) -> None:
    """Give all accounts their rights."""
    for item in rights():
        admin.apply(item)


def account_token(admin: Api, verb: str) -> str:
    """Return a token of a process's account, as its pod would get one."""
    body = {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{_account(verb)}/token"
    token: str = admin.call("POST", path, body).body["status"]["token"]
    return token


def allow_leases(admin: Api, verb: str, namespace: str) -> None:
    """Let a process look for Leases in another namespace than its own."""
    group = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{group}/v1",
        "metadata": {"name": "leases", "namespace": namespace},
    }
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    admin.create({**role, "kind": "Role", "rules": [rule]})
    reference = {"apiGroup": group, "kind": "Role", "name": "leases"}
    account = {"kind": "ServiceAccount", "name": _account(verb), "namespace": NAMESPACE}
    admin.create(
        {**role, "kind": "RoleBinding", "roleRef": reference, "subjects": [account]},
    )

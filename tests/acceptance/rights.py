"""Accounts and roles for our processes: those that are shipped, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from app.kube.manifests.documents import PROCESSES, objects
from app.model.fields import Json
from tests.cluster.api import SERVICE_ACCOUNTS, Api

NAMESPACE: Final = "kube-system"
GROUP: Final = "rbac.authorization.k8s.io"
_KINDS: Final = {
    *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret")
}
_TOKEN_SECONDS: Final = 7200


def _account(verb: str) -> str:
    """Return the name of a process's account."""
    (found,) = (item for item in objects(verb) if item["kind"] == "ServiceAccount")
    return str(found["metadata"]["name"])


def prepare(admin: Api, documents: Iterable[str] = PROCESSES) -> None:
    """Give all accounts their rights, and what they may only fill."""
    for name in documents:
        for item in objects(name):
            if item["kind"] in _KINDS:
                admin.apply(item)


def account_token(admin: Api, verb: str) -> str:
    """Return a token of a process's account, as its pod would get one."""
    return token(admin, NAMESPACE, _account(verb))


def token(admin: Api, namespace: str, account: str, **spec: object) -> str:
    """Return a token of an account; `spec` is what it must be beside long-lived."""
    body = {"spec": {"expirationSeconds": _TOKEN_SECONDS, **spec}}
    path = SERVICE_ACCOUNTS.path(namespace, account, "token")
    found: str = admin.call("POST", path, body).body["status"]["token"]
    return found


def allow_leases(admin: Api, verb: str, namespace: str) -> None:
    """Let a process look for Leases in another namespace than its own."""
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    allow(admin, namespace, "leases", rule, {"name": _account(verb), "namespace": NAMESPACE})


def allow(admin: Api, namespace: str, name: str, rule: Json, account: Json) -> None:
    """Let an account do in a namespace what a rule says, by a role and a binding of this name."""
    about = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": name, "namespace": namespace}}
    admin.create({**about, "kind": "Role", "rules": [rule]})
    role = {"apiGroup": GROUP, "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", **account}
    admin.create({**about, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]})

"""Documents that are applied to a cluster: what is printed of them, and by which flags."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.admission.certificates import issue
from app.commands.flags import ManifestsSettings
from app.commands.manifests import webhooks_report
from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.output import Report
from app.ports import Json
from tests.cases import cases
from tests.make import NOW

CA = issue(("localhost",), NOW, 20_000).ca_pem
INJECTED = "--inject-ca-from=kube-system/plumbline-webhook"


def printed(*flags: str) -> Report:
    """Return what is printed of the webhook configurations."""
    return webhooks_report(parse(ManifestsSettings, ["webhooks", *flags], {}))


def clients(report: Report) -> list[Json]:
    """Return how each webhook is reached."""
    return [item["webhooks"][0]["clientConfig"] for item in report.items]


def test_both_configurations() -> None:
    """There is one for each phase, under the name that the webhook would give them."""
    found = printed(INJECTED)
    assert found.names == [
        "mutatingwebhookconfiguration.admissionregistration.k8s.io/vpa-webhook-config",
        "validatingwebhookconfiguration.admissionregistration.k8s.io/vpa-webhook-config",
    ]


def test_by_service() -> None:
    """By default they lead to the service in the namespace that is named."""
    services = [
        {"namespace": "vpa", "name": "other", "path": path, "port": 443}
        for path in ("/mutate", "/validate")
    ]
    found = printed(INJECTED, "-n=vpa", "--webhook-service=other")
    assert clients(found) == [{"service": service} for service in services]
    (webhook,) = found.items[0]["webhooks"]
    assert "request.namespace == 'vpa'" in webhook["matchConditions"][1]["expression"]


def test_by_url() -> None:
    """By URL they lead to an address that API servers reach."""
    flags = ("--register-by-url", "--webhook-address=https://10.0.0.1/vpa", "--webhook-port=")
    assert clients(printed(INJECTED, *flags)) == [
        {"url": "https://10.0.0.1/vpa/mutate"},
        {"url": "https://10.0.0.1/vpa/validate"},
    ]


def test_trust_that_is_given(tmp_path: Path) -> None:
    """A CA goes into both."""
    path = tmp_path / "ca.pem"
    path.write_text(CA)
    found = printed(f"--client-ca-file={path}")
    bundles = [base64.b64decode(client["caBundle"]).decode() for client in clients(found)]
    assert bundles == [CA, CA]
    assert not found.notes
    assert all("annotations" not in item["metadata"] for item in found.items)


def test_trust_that_is_injected() -> None:
    """cert-manager is told which Certificate has the CA, and no CA is written beside that."""
    found = printed(INJECTED)
    annotation = {"cert-manager.io/inject-ca-from": "kube-system/plumbline-webhook"}
    assert [item["metadata"]["annotations"] for item in found.items] == [annotation] * 2
    assert all("caBundle" not in client for client in clients(found))
    assert not found.notes


def test_no_trust() -> None:
    """Where no CA is named, it is said beside the documents what that means."""
    (note,) = printed().notes
    assert "trust no CA but those of their host" in note


def test_the_other_flags_of_the_process() -> None:
    """What else the process is told about its registration is written, too."""
    found = printed(
        INJECTED,
        "--register-webhook=false",
        "--webhook-config-name=mine",
        "--webhook-timeout-seconds=9",
        "--webhook-failure-policy-fail",
        "--webhook-labels=a:b",
        "--ignored-vpa-object-namespaces=kube-system",
    )
    for item in found.items:
        assert (item["metadata"]["name"], item["metadata"]["labels"]) == ("mine", {"a": "b"})
        (webhook,) = item["webhooks"]
        assert (webhook["timeoutSeconds"], webhook["failurePolicy"]) == (9, "Fail")
        (expression,) = webhook["namespaceSelector"]["matchExpressions"]
        assert (expression["operator"], expression["values"]) == ("NotIn", ["kube-system"])


@cases(
    "flags problem",
    {
        "no URL": (["--register-by-url"], "--webhook-address: '' does not make a webhook URL"),
        "not over TLS": (
            ["--register-by-url", "--webhook-address=http://x"],
            "--webhook-address: 'http://x' does not make a webhook URL",
        ),
        "no such file": (["--client-ca-file=absent.pem"], "--client-ca-file: absent.pem: "),
        "no certificate": ([f"--client-ca-file={__file__}"], "holds no certificate"),
        "no namespace": (["--inject-ca-from=webhook"], "--inject-ca-from"),
        "two ways": (
            ["--client-ca-file=x", INJECTED],
            "--client-ca-file and --inject-ca-from exclude each other",
        ),
        "labels": (["--webhook-labels=x"], "--webhook-labels: "),
    },
)
def test_flags_that_cannot_be_used(flags: Sequence[str], problem: str) -> None:
    """What would make configurations that do not work is refused, with the flag."""
    with pytest.raises(BadSetting) as caught:
        printed(*flags)
    assert problem in str(caught.value)

"""Asks the registered webhooks about writes that they are for, as an API server does.

Strategy: those that change are asked one after the other, each about what the one before made of
the object; those that check are asked about the final object. What goes wrong in the call is the
failure policy's matter, what the webhook says is not: a refusal refuses, and a patch that does
not apply is an error, whatever the policy.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from uuid import UUID

import orjson

from app.model import patches
from app.model.errors import BadObject, Invalid
from app.model.selectors import Selector
from app.ports import NAMESPACES, Json
from app.sandbox.cel import CelError, compile_cel
from app.sandbox.objects import JsonValue, Key, copied, labels_of, member
from app.sandbox.refusals import bad_request, broken, of_status
from app.sandbox.store import Store
from app.sandbox.webhook_client import CallFailed, WebhookClient
from app.sandbox.writes import AdmissionPlugin, Attempt, Operation

_MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
_VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
_WITHOUT_EFFECTS = ("None", "NoneOnDryRun")
_USER: Json = {"username": "sandbox", "groups": ["system:masters", "system:authenticated"]}
_LEAST_ERROR = 400

EXEMPT_GROUP = "admissionregistration.k8s.io"  # no webhook is asked about webhooks


class Webhooks(AdmissionPlugin):
    """The gate that the webhook configurations make."""

    def __init__(self, store: Store, client: WebhookClient, random: Random) -> None:
        self._store = store
        self._client = client
        self._random = random

    def change(self, attempt: Attempt) -> Json:
        """Let the mutating webhooks change an object."""
        item = attempt.item
        assert item is not None
        asked: list[tuple[Json, Json]] = []
        for webhook in self._registered(_MUTATING):
            item = self._changed_by(webhook, replace(attempt, item=item))
            if webhook.get("reinvocationPolicy") == "IfNeeded":
                asked.append((webhook, item))
        for webhook, left in asked:
            if left != item:  # one after it changed the object
                item = self._changed_by(webhook, replace(attempt, item=item))
        return item

    def check(self, attempt: Attempt) -> None:
        """Let the validating webhooks refuse."""
        for webhook in self._registered(_VALIDATING):
            self._ask(webhook, attempt)

    def _registered(self, collection: str) -> Iterator[Json]:
        for configuration in self._store.items(collection):
            yield from configuration.get("webhooks") or ()

    def _changed_by(self, webhook: Json, attempt: Attempt) -> Json:
        item = attempt.item
        assert item is not None
        answer = self._ask(webhook, attempt)
        patch = answer.get("patch") if answer else None
        if not patch:
            return item
        try:
            operations = orjson.loads(base64.b64decode(patch, validate=True))
            changed = copied(patches.apply(item, operations))
        except (binascii.Error, orjson.JSONDecodeError, Invalid, TypeError) as error:
            raise broken(f"the patch of webhook {webhook['name']!r}: {error}") from None
        attempt.kind.fill(changed)
        return changed

    def _ask(self, webhook: Json, attempt: Attempt) -> Json | None:
        """Return the answer of a webhook, None if it was not to be asked or did not answer."""
        if not concerns(webhook, attempt, self._store):
            return None
        uid = str(UUID(int=self._random.getrandbits(128), version=4))
        request = _request(attempt, uid)
        try:
            if not conditions_hold(webhook, request):
                return None
            if attempt.dry_run and webhook.get("sideEffects") not in _WITHOUT_EFFECTS:
                name = webhook["name"]
                raise bad_request(f'admission webhook "{name}" does not support dry run')
            seconds = float(webhook.get("timeoutSeconds") or 10)
            review = {**_REVIEW, "request": request}
            answer = self._client.call(webhook["clientConfig"], review, seconds)
            response = _verified(answer, uid, is_mutating="reinvocationPolicy" in webhook)
        except (CallFailed, CelError) as error:
            if webhook.get("failurePolicy") == "Ignore":
                return None
            called = f'failed calling webhook "{webhook["name"]}"'
            raise broken(f"{called}: failed to call webhook: {error}") from None
        _judge(webhook, response)
        return response


def _judge(webhook: Json, response: Json) -> None:
    """Refuse what a webhook does not allow."""
    if response.get("allowed") is True:
        return
    status = response.get("status") or {}
    code = max(int(status.get("code") or 0), _LEAST_ERROR)
    reason = str(status.get("reason") or "")
    why = status.get("message") or reason
    denied = f'admission webhook "{webhook["name"]}" denied the request'
    message = f"{denied}: {why}" if why else f"{denied} without explanation"
    raise of_status(code, message, reason, _causes(status))


def _request(attempt: Attempt, uid: str) -> Json:
    resource = attempt.kind.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    place = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    options = {Operation.CREATE: "CreateOptions", Operation.UPDATE: "UpdateOptions"}
    word = options.get(attempt.operation, "DeleteOptions")
    request: Json = {
        "uid": uid,
        "kind": kind,
        "resource": place,
        "requestKind": dict(kind),
        "requestResource": dict(place),
        "operation": attempt.operation.value,
        "userInfo": _USER,
        "object": attempt.item,
        "oldObject": attempt.old,
        "dryRun": attempt.dry_run,
        "options": {"kind": word, "apiVersion": "meta.k8s.io/v1"},
    }
    if attempt.subresource:
        request |= {
            "subResource": attempt.subresource,
            "requestSubResource": attempt.subresource,
        }
    if attempt.name:
        request["name"] = attempt.name
    if attempt.namespace and resource.namespaced:
        request["namespace"] = attempt.namespace
    return request


def _verified(answer: Json, uid: str, *, is_mutating: bool) -> Json:
    """Return the response of a review.

    Raises:
        CallFailed: it is no answer to what was asked.
    """
    response: JsonValue = answer.get("response")
    flaw = ""
    if {key: answer.get(key) for key in _REVIEW} != _REVIEW:
        flaw = f"expected webhook response of admission.k8s.io/v1, got {answer.get('apiVersion')}"
    elif not isinstance(response, dict):
        flaw = "webhook response was absent"
    elif response.get("uid") != uid:
        flaw = f'expected response.uid="{uid}", got "{response.get("uid")}"'
    elif response.get("patch") and not is_mutating:
        flaw = "webhook response.patch is not allowed of a validating webhook"
    elif response.get("patch") and response.get("patchType") != "JSONPatch":
        flaw = "webhook returned response.patch but not response.patchType JSONPatch"
    if flaw:
        raise CallFailed(f"received invalid webhook response: {flaw}")
    found: Json = response
    return found


def _causes(status: Json) -> tuple[tuple[str, str], ...]:
    return tuple(
        (str(cause.get("reason") or ""), str(cause.get("message") or ""))
        for cause in member(status, "details.causes") or ()
    )


def concerns(webhook: Json, attempt: Attempt, store: Store) -> bool:
    """Whether rules and selectors of a webhook choose a write."""
    return (
        attempt.kind.resource.group != EXEMPT_GROUP
        and any(_fits(rule, attempt) for rule in webhook.get("rules") or ())
        and _is_selected(webhook, "namespaceSelector", _namespaces(attempt, store))
        and _is_selected(webhook, "objectSelector", _objects(attempt))
    )


def conditions_hold(webhook: Json, request: Json) -> bool:
    """Whether all match conditions of a webhook hold; one that does not counts over errors.

    Raises:
        CelError: some have no value, and none is false.
    """
    variables = {
        "request": request,
        "object": request["object"],
        "oldObject": request["oldObject"],
    }
    error: CelError | None = None
    for condition in webhook.get("matchConditions") or ():
        try:
            if compile_cel(condition["expression"])(variables) is not True:
                return False
        except CelError as found:
            error = found
    if error is not None:
        raise error
    return True


def _fits(rule: Json, attempt: Attempt) -> bool:
    resource = attempt.kind.resource
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return (
        _is_among(rule.get("operations"), attempt.operation)
        and _is_among(rule.get("apiGroups"), resource.group)
        and _is_among(rule.get("apiVersions"), resource.version)
        and rule.get("scope", "*") in ("*", scope)
        and any(
            pattern in _patterns(resource.plural, attempt.subresource)
            for pattern in rule.get("resources") or ()
        )
    )


def _is_among(words: Sequence[str] | None, word: str) -> bool:
    return any(found in ("*", word) for found in words or ())


def _patterns(plural: str, subresource: str) -> tuple[str, ...]:
    """Return how a rule may name a resource."""
    if not subresource:  # a star behind the slash takes also those who have nothing there
        return (plural, "*", f"{plural}/*", "*/*")
    return (f"{plural}/{subresource}", f"{plural}/*", f"*/{subresource}", "*/*")


def _is_selected(webhook: Json, key: str, items: Iterator[Json]) -> bool:
    try:
        selector = Selector.read(webhook.get(key) or {}, key)
    except BadObject:
        return False
    return selector.is_everything or any(selector.matches(labels_of(item)) for item in items)


def _namespaces(attempt: Attempt, store: Store) -> Iterator[Json]:
    """Yield what a namespace selector is asked about; all else of the cluster fits any."""
    if attempt.kind.resource == NAMESPACES:
        yield from _objects(attempt)
    elif attempt.kind.resource.namespaced:
        found = store.read("namespaces", Key("", attempt.namespace))
        if found is not None:
            yield found


def _objects(attempt: Attempt) -> Iterator[Json]:
    for item in (attempt.item, attempt.old):
        if item is not None:
            yield item

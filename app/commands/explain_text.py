"""An explanation as a text that people read from above to below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from app.model.fields import Json
from app.model.quantity import Quantity
from app.model.text import amount, percent, span
from app.model.times import rfc3339
from app.output import Line, Piece, Table, Tone, line, table_lines

_INDENT: Final = Piece("  ")
_NOTHING: Final = Piece("-", Tone.FAINT)
_ACTS: Final = ("Evict", "Resize", "Unboost")
_GETS: Final = ("CONTAINER", "RESOURCE", "HAD", "RECOMMENDED", "CAPPED BY", "BOOST", "GETS")
_NUMBERS: Final = (
    "CONTAINER",
    "RESOURCE",
    "REQUEST",
    "TARGET",
    "BOUNDS",
    "UNCAPPED",
    "CONFIDENCE",
    "SAMPLES",
    "AGE",
)
_MOST_PODS: Final = 20


def explanation_lines(item: Json, now: datetime, interval: timedelta) -> Iterator[Line]:
    """Yield an explanation as lines."""
    is_pod = item["kind"] == "Pod"
    word = "Pod" if is_pod else "VPA"
    yield line(f"{word} {item['namespace']}/{item['name']}", Tone.STRONG)
    yield from _indented(_pod_head(item["creation"]) if is_pod else _vpa_head(item))
    yield ()
    yield line("From which numbers", Tone.STRONG)
    yield from _indented(_numbers(item["recommendation"], now))
    yield ()
    yield line("What a pod gets when it is created", Tone.STRONG)
    yield from _indented(_creation(item["creation"]))
    yield ()
    yield line("What the updater does", Tone.STRONG)
    yield from _indented(
        _turns(item["updater"], now, interval) if is_pod else _pods(item, now, interval)
    )


def _indented(lines: Iterable[Line]) -> Iterator[Line]:
    return ((_INDENT, *one) for one in lines)


def _pod_head(creation: Json) -> Iterator[Line]:
    if "owner" in creation:
        yield line(f"of {creation['owner']}")
    vpa = creation.get("vpa")
    if vpa is None:
        yield line(creation["message"], Tone.CAREFUL)
        return
    yield line(f"sized by VPA {vpa['name']} in mode {vpa['mode']}: {vpa['why']}")
    for weaker in vpa.get("weaker", ()):
        yield line(f"and not by VPA {weaker['name']}: {weaker['why']}")


def _vpa_head(item: Json) -> Iterator[Line]:
    yield line(f"for {item.get('workload', 'nothing')} in mode {item['mode']}")
    if "selector" in item:
        yield line(f"and of its pods for those with {item['selector']}")
    for name in item["rivals"]:
        yield line(f"beside VPA {name}")
    for condition in item["conditions"]:
        words = [condition.get("reason"), condition.get("message")]
        why = ": ".join(filter(None, words))
        yield line(f"{condition['type']} is {condition['status']}" + (f" ({why})" if why else ""))


def _numbers(found: Sequence[Json], now: datetime) -> Iterator[Line]:
    rows = [tuple(_number_row(one, now)) for one in found if "container" in one]
    yield from table_lines(Table(_NUMBERS, rows))
    for one in found:
        if "problem" in one:
            yield line(f"nothing is recommended: {one['problem']}", Tone.CAREFUL)
    if not found:
        yield line("nothing is recommended for it", Tone.FAINT)


def _number_row(one: Json, now: datetime) -> Iterator[Piece]:
    resource = one["resource"]
    yield Piece(one["container"])
    yield Piece(resource)
    yield _range(resource, one.get("lowestRequest"), one.get("highestRequest"))
    yield _written(resource, one.get("target"))
    yield _range(resource, one.get("lowerBound"), one.get("upperBound"))
    uncapped = _written(resource, one.get("uncappedTarget"))
    by = one.get("cappedBy")
    yield Piece(f"{uncapped.text} ({by})", Tone.CAREFUL) if by else uncapped
    confidence = one.get("confidence")
    yield _NOTHING if confidence is None else Piece(percent(min(confidence, 1)))
    yield Piece(str(one["samples"])) if "samples" in one else _NOTHING
    yield Piece(span(now - datetime.fromisoformat(one["asOf"]))) if "asOf" in one else _NOTHING


def _written(resource: str, text: str | None) -> Piece:
    return _NOTHING if text is None else Piece(amount(resource, Quantity.parse(text)))


def _range(resource: str, low: str | None, high: str | None) -> Piece:
    least, most = _written(resource, low), _written(resource, high)
    return most if low == high or high is None else Piece(f"{least.text}-{most.text}")


def _creation(creation: Json | None) -> Iterator[Line]:
    if creation is None:
        yield line("there is no pod to tell it by", Tone.FAINT)
        return
    containers = creation.get("containers")
    if containers is None:
        yield line(f"what its author wrote ({creation['reason']}): {creation['message']}")
    for container in containers or ():
        if "recommendation" in container:
            yield line(f"{container['name']}: {container['recommendation']}", Tone.CAREFUL)
    rows = [
        row
        for container in containers or ()
        for resource, story in container.items()
        if isinstance(story, dict)
        for row in [tuple(_story_row(container["name"], resource, story))]
    ]
    yield from table_lines(Table(_GETS, rows))
    if "advice" in creation:
        yield line(f"What helps: {creation['advice']}", Tone.CAREFUL)


def _story_row(container: str, resource: str, story: Json) -> Iterator[Piece]:
    yield Piece(container)
    yield Piece(resource)
    yield _pair(resource, story.get("had"))
    yield _written(resource, story.get("recommended"))
    yield Piece("; ".join(story["caps"]), Tone.CAREFUL) if "caps" in story else _NOTHING
    yield _boost(story.get("boost"))
    yield _pair(resource, story.get("gets"))


def _pair(resource: str, found: Json | None) -> Piece:
    """Write a request, and its limit behind a slash."""
    if not found:
        return _NOTHING
    request, limit = (_written(resource, found.get(word)).text for word in ("request", "limit"))
    return Piece(request if "limit" not in found else f"{request} (limit {limit})")


def _boost(found: Json | str | None) -> Piece:
    if found is None:
        return _NOTHING
    if isinstance(found, str):
        return Piece(found, Tone.CAREFUL)
    held = f", held by {found['heldBy']}" if "heldBy" in found else ""
    return Piece(f"{found['from']} to {found['to']}{held}", Tone.GOOD)


def _turns(turns: Sequence[Json], now: datetime, interval: timedelta) -> Iterator[Line]:
    if not turns:
        yield line("nothing: no VPA controls the pod", Tone.FAINT)
        return
    for turn in turns:
        yield _turn(turn, now, interval)
        if "advice" in turn:
            yield line(f"  What helps: {turn['advice']}", Tone.CAREFUL)
    last = turns[-1]
    if last["action"] not in _ACTS:
        yield line("That changes only when something else does.", Tone.FAINT)


def _turn(turn: Json, now: datetime, interval: timedelta) -> Line:
    at = datetime.fromisoformat(turn["at"])
    is_act = turn["action"] in _ACTS
    if at > now:
        when = f"in {span(at - now)}, from {rfc3339(at)} on"
    else:
        when = f"in the next round, within {span(interval)}" if is_act else "now"
    action = {"None": "leaves it as it is", "Wait": "waits"}.get(turn["action"], turn["action"])
    tone = Tone.GOOD if is_act else Tone.CAREFUL if turn["action"] == "Wait" else Tone.PLAIN
    head = Piece(f"{when}: {action} ({turn['reason']})", tone)
    return head, Piece(f": {turn['message']}" if turn["message"] else "")


def _pods(item: Json, now: datetime, interval: timedelta) -> Iterator[Line]:
    pods = item["pods"]
    if not pods:
        yield line("nothing: it has no pod", Tone.FAINT)
        return
    yield line(", ".join(f"{count} {reason}" for reason, count in item["reasons"].items()))
    for pod in pods[:_MOST_PODS]:
        yield (Piece(f"{pod['pod']}: ", Tone.STRONG), *_turn(pod, now, interval))
    if len(pods) > _MOST_PODS:
        yield line(f"and {len(pods) - _MOST_PODS} more; -o json shows them all", Tone.FAINT)
    for advice in dict.fromkeys(pod["advice"] for pod in pods if "advice" in pod):
        yield line(f"What helps: {advice}", Tone.CAREFUL)

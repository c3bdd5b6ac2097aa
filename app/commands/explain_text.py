"""An explanation as a text that people read from above to below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from app.commands.explain_past import past_lines
from app.model.fields import Json
from app.model.quantity import Quantity
from app.model.text import amount, percent, span
from app.model.times import rfc3339
from app.output import Line, Piece, Table, Tone, folded, line, table_lines
from app.updater.core.events import headline

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
_OPTIONAL: Final = ("UNCAPPED", "CONFIDENCE", "SAMPLES", "AGE", "CAPPED BY", "BOOST")
_MOST_PODS: Final = 20


def explanation_lines(
    item: Json, now: datetime, interval: timedelta, *, is_whole: bool = False
) -> Iterator[Line]:
    """Yield an explanation as lines; unless it is whole, many pods are not told of one by one."""
    is_pod, is_vpa = (item["kind"] == kind for kind in ("Pod", "VerticalPodAutoscaler"))
    word = "VPA" if is_vpa else item["kind"]
    yield line(f"{word} {item['namespace']}/{item['name']}", Tone.STRONG)
    if "gone" in item:
        yield from _indented([line("does not exist any more")])
    else:
        yield from _present(item, now, interval, is_pod=is_pod, is_vpa=is_vpa, is_whole=is_whole)
    if "events" in item:
        yield ()
        yield line("What happened, from Events", Tone.STRONG)
        yield from _indented(past_lines(item["events"], now, is_gone="gone" in item))


def _present(
    item: Json, now: datetime, interval: timedelta, *, is_pod: bool, is_vpa: bool, is_whole: bool
) -> Iterator[Line]:
    yield from _indented(_vpa_head(item) if is_vpa else _pod_head(item))
    if "problems" in item:
        yield ()
        yield line("Problems", Tone.STRONG)
        yield from _indented(chain.from_iterable(map(_problem, item["problems"])))
    yield ()
    yield line("Recommendation", Tone.STRONG)
    yield from _indented(_numbers(item["recommendation"], now))
    yield ()
    yield line("New pods (webhook)", Tone.STRONG)
    if "noPods" in item and item["creation"] is not None:
        yield from _indented([line("no running pod; by the template of the workload", Tone.FAINT)])
    yield from _indented(_creation(item["creation"], _vpa_of(item)))
    yield ()
    yield line("Running pods (updater)", Tone.STRONG)
    yield from _indented(
        _turns(item["updater"], now, interval)
        if is_pod
        else _pods(item, now, interval, is_whole=is_whole)
    )


def _problem(found: Json) -> Iterator[Line]:
    tone = Tone.BAD if found["level"] == "error" else Tone.CAREFUL
    yield Piece(f"{found['level']}: ", tone), Piece(found["message"])
    if "fix" in found:
        yield line(f"$ {found['fix']}", Tone.STRONG)


def _indented(lines: Iterable[Line]) -> Iterator[Line]:
    return ((_INDENT, *one) for one in lines)


def _vpa_of(item: Json) -> str:
    """Return the VPA that something is explained by, or that has the running pod."""
    is_vpa = item["kind"] == "VerticalPodAutoscaler"
    return str(item["name"] if is_vpa else item.get("vpa", ""))


def _pod_head(item: Json) -> Iterator[Line]:
    creation = item["creation"]
    if creation is None:
        yield line("no running pod, and no template that is known", Tone.CAREFUL)
        return
    kind, _, name = creation.get("owner", "").partition("/")
    if name and (kind.partition(".")[0], name) != (item["kind"], item["name"]):
        yield line(f"of {creation['owner']}")
    vpa = creation.get("vpa")
    if "mode" in item and (vpa is None or vpa["name"] != item["vpa"]):
        role = next((turn["role"] for turn in item["updater"] if "role" in turn), "")
        why = f": {role}" if role else ""
        yield line(f"sized by VPA {item['vpa']} in mode {item['mode']}{why}")
        return
    if vpa is None:
        told = next(iter(item.get("updater", ())), creation)  # of the running pod, if it is known
        yield line(told["message"], Tone.CAREFUL)
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
    yield from table_lines(_without_empty(Table(_NUMBERS, rows)))
    for one in found:
        if "problem" in one:
            yield line(f"nothing is recommended: {one['problem']}", Tone.CAREFUL)
    if not found:
        yield line("nothing is recommended for it", Tone.FAINT)


def _without_empty(table: Table) -> Table:
    """Return a table without those columns in which nothing stands that need not be there."""
    kept = [
        at
        for at, column in enumerate(table.columns)
        if column not in _OPTIONAL or any(row[at] != _NOTHING for row in table.rows)
    ]
    rows = [tuple(row[at] for at in kept) for row in table.rows]
    return Table(tuple(table.columns[at] for at in kept), rows)


def _number_row(one: Json, now: datetime) -> Iterator[Piece]:
    resource = one["resource"]
    yield Piece(one["container"])
    yield Piece(resource)
    yield _range(resource, one.get("lowestRequest"), one.get("highestRequest"))
    yield _written(resource, one.get("target"))
    yield _range(resource, one.get("lowerBound"), one.get("upperBound"))
    uncapped = _written(resource, one.get("uncappedTarget"))
    by = one.get("cappedBy")
    is_target = one.get("uncappedTarget") == one.get("target")  # then it says nothing more
    shown = _NOTHING if is_target else uncapped
    yield Piece(f"{uncapped.text} ({by})", Tone.CAREFUL) if by else shown
    confidence = one.get("confidence")
    yield _NOTHING if confidence is None else Piece(percent(min(confidence, 1)))
    yield Piece(str(one["samples"])) if "samples" in one else _NOTHING
    yield Piece(span(now - datetime.fromisoformat(one["asOf"]))) if "asOf" in one else _NOTHING


def _written(resource: str, text: str | None) -> Piece:
    return _NOTHING if text is None else Piece(amount(resource, Quantity.parse(text)))


def _range(resource: str, low: str | None, high: str | None) -> Piece:
    least, most = _written(resource, low), _written(resource, high)
    return most if low == high or high is None else Piece(f"{least.text}-{most.text}")


def _creation(creation: Json | None, of_vpa: str) -> Iterator[Line]:
    if creation is None:
        yield line("no running pod, and no template that is known", Tone.FAINT)
        return
    if of_vpa not in ("", creation.get("vpa", {}).get("name", of_vpa)):  # as a leader's
        yield line(creation["message"], Tone.CAREFUL)
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
    yield from table_lines(_without_empty(Table(_GETS, rows)))
    if "advice" in creation:
        yield line(f"What helps: {creation['advice']}", Tone.CAREFUL)


def _story_row(container: str, resource: str, story: Json) -> Iterator[Piece]:
    yield Piece(container)
    yield Piece(resource)
    yield _pair(resource, story.get("had"))
    yield _written(resource, story.get("recommended"))
    yield Piece("; ".join(story["caps"]), Tone.CAREFUL) if "caps" in story else _NOTHING
    yield _boost(story.get("boost"))
    yield _gets(resource, story)


def _gets(resource: str, story: Json) -> Piece:
    """Return what a container gets, which is what it had, also nothing, if that is kept."""
    had, gets = (_pair(resource, story.get(word)) for word in ("had", "gets"))
    if gets != _NOTHING or (had == _NOTHING and "held" not in story):
        return gets
    why = "held" if "held" in story else "unchanged"
    return Piece(f"{had.text} ({why})", Tone.FAINT)


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
    if "role" in turns[0]:
        yield line(turns[0]["role"])
    for turn in turns:
        yield _turn(turn, now, interval)
        if "advice" in turn:
            yield line(f"  What helps: {turn['advice']}", Tone.CAREFUL)
    if turns[-1]["action"] == "None":
        why = "unless the pod, its VPA or the recommendation changes"
        yield line(f"No change is due {why}.", Tone.FAINT)


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


def _pods(item: Json, now: datetime, interval: timedelta, *, is_whole: bool) -> Iterator[Line]:
    pods = item["pods"]
    if not pods:
        yield line("nothing: no running pod", Tone.FAINT)
        return
    yield line(headline((pod["action"], pod["reason"]) for pod in pods))
    told = [(pod["pod"], (_turn(pod, now, interval), pod.get("role"))) for pod in pods]
    several = told if is_whole else list(folded(told))
    most = len(several) if is_whole else _MOST_PODS
    for name, (turn, role) in several[:most]:
        yield (Piece(f"{name}: ", Tone.STRONG), *turn)
        if role is not None:
            yield line(f"  {role}")
    if len(several) > most:
        yield line(f"and {len(several) - most} more; -o wide shows them all", Tone.FAINT)
    for advice in dict.fromkeys(pod["advice"] for pod in pods if "advice" in pod):
        yield line(f"What helps: {advice}", Tone.CAREFUL)

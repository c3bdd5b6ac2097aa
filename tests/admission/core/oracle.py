"""A second, plain implementation of what the upstream webhook does to a pod.

Strategy: written from the description of upstream's behaviour alone, straight through, with all
its faults. Where a fault shows that we have mended on purpose, its name lands in `mended`; what
comes out without any must be ours to the byte. Only the reading and printing of quantities is
shared with the code under test.
"""

from __future__ import annotations

import orjson

from app.model.fields import Json
from app.model.quantity import MAX_INT64, ZERO, Quantity

Amounts = dict[str, Quantity]

BOTH = ("cpu", "memory")


class UpstreamFails(Exception):
    """The request crashes or ends in an error: the pod passes unchanged."""


def amounts(json: Json | None) -> Amounts:
    """Read a map of quantities."""
    return {name: Quantity.read(value) for name, value in (json or {}).items()}


def milli(q: Quantity) -> int:
    """Thousandths, rounded up."""
    return -(-q.nano // 10**6)


def milli64(q: Quantity) -> int:
    """Thousandths as a signed number of 64 bits, which overflows."""
    return (milli(q) + 2**63) % 2**64 - 2**63


def units(q: Quantity) -> int:
    """Units, rounded up."""
    return -(-q.nano // 10**9)


def scaled(
    resource: str, x: Quantity, base: Quantity, target: Quantity, rounding: str = ""
) -> tuple[Quantity, bool]:
    """Return x in the proportion of target to base, and whether int64 cut it off."""
    if resource == "cpu":
        if base.nano == 0:
            return x, False
        quotient, rest = divmod(milli(x) * milli(target), milli(base))
        quotient += bool(rest) and rounding == "up"
        step = 10**6
    else:
        quotient = units(x) * units(target) // units(base)
        step = 10**9
        if quotient == 0 and rounding == "down":
            quotient = -1
    is_cut = quotient > MAX_INT64
    return Quantity(min(quotient, MAX_INT64) * step, x.format), is_cut


def in_order(resources: Amounts) -> list[str]:
    """The order of resources is random upstream; ours is fixed."""
    return sorted(resources, key=lambda name: (name != "cpu", name != "memory", name))


class Upstream:
    """One review: the pod, the VPA that controls it, the LimitRanges of the namespace."""

    def __init__(
        self,
        pod: Json,
        vpa: Json,
        ranges: list[Json],
        *,
        gate: bool = False,
        flag: Quantity = ZERO,
    ) -> None:
        self.pod, self.vpa, self.gate, self.flag = pod, vpa, gate, flag
        self.containers: list[Json] = pod["spec"]["containers"]
        self.container_range = self._aggregate(ranges, "Container")
        self.pod_range = self._aggregate(ranges, "Pod")
        self.mended: set[str] = set()
        self.notes: dict[str, list[str]] = {}

    # --- what is asked for

    @staticmethod
    def _aggregate(ranges: list[Json], kind: str) -> dict[str, Amounts] | None:
        words = ("min", "max", "default")
        entries = [
            {word: amounts(entry.get(word)) for word in words}
            for item in sorted(ranges, key=lambda item: str(item["metadata"]["name"]))
            for entry in item["spec"]["limits"]
            if entry["type"] == kind and any(entry.get(word) for word in words)
        ]
        found: dict[str, Amounts] = {word: {} for word in words}
        for entry in entries:
            found["default"] = entry["default"] or found["default"]
            for resource, low in entry["min"].items():
                kept = found["min"].get(resource, low)
                found["min"][resource] = kept if kept > low else low
            for resource, high in entry["max"].items():
                kept = found["max"].get(resource, high)
                found["max"][resource] = kept if kept < high else high
        return found if entries else None

    def policy(self, name: str) -> Json:
        """The policy of a container."""
        entries = (self.vpa["spec"].get("resourcePolicy") or {}).get("containerPolicies") or []
        for entry in entries:
            if entry.get("containerName") == name:
                return dict(entry)
        wild = [entry for entry in entries if entry.get("containerName") == "*"]
        return dict(wild[-1]) if wild else {}

    def controlled(self, name: str) -> str:
        """Which values of a container follow."""
        found = self.policy(name).get("controlledValues")
        return "RequestsAndLimits" if found is None else str(found)

    @property
    def is_off(self) -> bool:
        """Whether the VPA is in mode Off."""
        return (self.vpa["spec"].get("updatePolicy") or {}).get("updateMode") == "Off"

    @staticmethod
    def spec(container: Json, word: str) -> Amounts:
        """Requests or limits of a container as its author wrote them."""
        return amounts((container.get("resources") or {}).get(word))

    # --- capping

    def capped(self) -> list[Json]:
        """Return the recommendations after all caps, as maps of quantities by list."""
        status = (self.vpa.get("status") or {}).get("recommendation")
        if status is None:
            return []
        found = [
            {"name": entry.get("containerName", "")}
            | {word: amounts(entry.get(word)) for word in ("target", "lowerBound", "upperBound")}
            for entry in status.get("containerRecommendations") or []
        ]
        if self.pod_range is not None:
            self._pod_range(found, self.pod_range)
        names = [container["name"] for container in self.containers]
        found = [entry for entry in found if entry["name"] in names]
        for entry in found:
            container = self.containers[names.index(entry["name"])]
            for word in ("target", "lowerBound", "upperBound"):
                notes = self._cap(container, entry[word])
                if word == "target" and notes:
                    self.notes[entry["name"]] = notes
        return found

    def _pod_range(self, found: list[Json], limits: dict[str, Amounts]) -> None:
        for container in self.containers:
            requests = self.spec(container, "requests")
            if requests and not any(entry["name"] == container["name"] for entry in found):
                pseudo = {"lowerBound": None, "upperBound": None}
                found.append({"name": container["name"], "target": requests} | pseudo)
                self.mended.add("makes room")
        for word in ("upperBound", "target", "lowerBound"):
            for resource in BOTH:
                self._fit(found, word, resource, limits)
        for entry in found:
            for word in ("lowerBound", "upperBound"):
                entry[word] = entry[word] or {}

    def _fit(self, found: list[Json], word: str, resource: str, limits: dict[str, Amounts]) -> None:
        least, most, default = (
            limits[key].get(resource, ZERO) for key in ("min", "max", "default")
        )
        requests_sum = limits_sum = 0
        for container in self.containers:
            entry = next((e for e in found if e["name"] == container["name"]), None)
            q = self.spec(container, "requests").get(resource, ZERO)
            r = q if entry is None else (entry[word] or {}).get(resource, ZERO)
            limit = self._limit(resource, container, r, default)[0]
            requests_sum += r.nano
            limits_sum += limit.nano if limit is not None else 0
        sum_r, sum_l = Quantity(requests_sum), Quantity(limits_sum)
        if least <= sum_l and least <= sum_r and (most == ZERO or most >= sum_l):
            return
        if least > sum_r and sum_l != ZERO:
            base, target, rounding = sum_r, least, "up"
        elif sum_l == ZERO:
            return
        else:
            target = least if least > sum_l else ZERO
            target = most if most != ZERO and most < sum_l else target
            base, rounding = sum_l, "down"
        for container in self.containers:
            entry = next((e for e in found if e["name"] == container["name"]), None)
            if entry is None and rounding == "up":
                continue
            if entry is None or entry[word] is None:
                raise UpstreamFails("writes into a map that is not there")
            if resource not in entry[word]:
                self.mended.add("zero for a resource that is not recommended")
            entry[word][resource] = scaled(
                resource, entry[word].get(resource, ZERO), base, target, rounding
            )[0]
            if entry[word][resource].nano < 0:
                self.mended.add("negative memory")

    def _cap(self, container: Json, found: Amounts) -> list[str]:
        notes: list[str] = []
        policy = self.policy(container["name"])
        if self.container_range is not None:
            self._container_range(container, found, self.container_range, notes)
        least, most = amounts(policy.get("minAllowed")), amounts(policy.get("maxAllowed"))
        for resource in in_order(found):
            if least.get(resource, ZERO) != ZERO and found[resource] < least[resource]:
                found[resource] = least[resource]
                notes.append(f"{resource} capped to minAllowed")
            if most.get(resource, ZERO) != ZERO and found[resource] > most[resource]:
                found[resource] = most[resource]
                notes.append(f"{resource} capped to maxAllowed")
        if self.controlled(container["name"]) == "RequestsOnly":
            limits = self.spec(container, "limits")
            for resource in in_order(found):
                if resource in limits and milli64(found[resource]) > milli64(limits[resource]):
                    found[resource] = limits[resource]
                    notes.append(f"{resource} capped to container limit")
        return notes

    def _container_range(
        self, container: Json, found: Amounts, limits: dict[str, Amounts], notes: list[str]
    ) -> None:
        for resource in in_order(found):
            if resource not in BOTH:
                continue
            least, most, default = (
                limits[word].get(resource, ZERO) for word in ("min", "max", "default")
            )
            q = self.spec(container, "requests").get(resource, ZERO)
            effective = self.spec(container, "limits").get(resource, ZERO)
            effective = effective if effective != ZERO else default
            low, high = least, most
            if effective == ZERO:
                low = high = ZERO
            elif q != ZERO:
                low, high = (scaled(resource, q, effective, b)[0] for b in (least, most))
            low = least if least > low else low
            if low != ZERO and found[resource] < low:
                found[resource] = low
                notes.append(f"{resource} capped to fit Min in container LimitRange")
            is_too_low = effective != ZERO and high < most and found[resource] > high
            if is_too_low and self.controlled(container["name"]) == "RequestsOnly":
                self.mended.add("a ratio of a limit that stays")
            if high != ZERO and found[resource] > high:
                found[resource] = high
                notes.append(f"{resource} capped to fit Max in container LimitRange")

    # --- limits

    def _limit(
        self, resource: str, container: Json, target: Quantity, default: Quantity
    ) -> tuple[Quantity | None, str]:
        limit = self.spec(container, "limits").get(resource, ZERO)
        request = self.spec(container, "requests").get(resource, ZERO)
        limit = default if limit == ZERO else limit
        if limit == ZERO:
            return None, f"{resource}: limit NOT set since originalLimit is nil or 0"
        if target == ZERO:
            return None, f"{resource}: limit NOT set since recommendedRequest is nil or 0"
        if request == ZERO or milli(request) == milli(limit):
            return target, ""
        found, is_cut = scaled(resource, limit, request, target)
        note = f"{resource}: failed to keep limit to request ratio; capping limit to int64"
        return found, note if is_cut else ""

    def _limits(
        self, container: Json, requests: Amounts, default: Amounts
    ) -> tuple[Amounts, list[str]]:
        found: Amounts = {}
        notes: list[str] = []
        for resource in BOTH:
            limit, note = self._limit(
                resource, container, requests.get(resource, ZERO), default.get(resource, ZERO)
            )
            if limit is not None:
                found[resource] = limit
            if note:
                notes.append(note)
        return found, notes if found else []

    # --- the boost

    def _asked(self, name: str) -> Json | None:
        boost = self.policy(name).get("startupBoost")
        boost = self.vpa["spec"].get("startupBoost") if boost is None else boost
        if boost is not None and boost.get("cpu") is None:
            raise UpstreamFails("boost without cpu")
        return dict(boost["cpu"]) if boost is not None else None

    def _boosted(self, base: Quantity, cpu: Json) -> Quantity:
        match cpu.get("type") or "Factor":
            case "Factor" if (cpu.get("factor") or 0) >= 1:
                wanted = int(milli(base) * float(cpu["factor"]))
            case "Quantity" if cpu.get("quantity") is not None:
                wanted = milli(base) + milli(Quantity.read(cpu["quantity"]))
            case _:
                raise UpstreamFails("incomplete or unknown boost")
        boosted = Quantity(wanted * 10**6)
        return self.flag if self.flag != ZERO and boosted > self.flag else boosted

    def _boost(self, container: Json, requests: Amounts, limits: Amounts) -> Json | None:
        cpu = self._asked(container["name"])
        if cpu is None:
            return None
        base = requests.get("cpu", ZERO)
        base = self.spec(container, "requests").get("cpu", ZERO) if base == ZERO else base
        requests["cpu"] = boosted = self._boosted(base, cpu)
        own = self.spec(container, "limits").get("cpu")
        controlled = self.controlled(container["name"])
        if controlled == "RequestsOnly" and own is not None and milli(boosted) > milli(own):
            is_wide = own > Quantity(10**6)
            requests["cpu"] = Quantity(own.nano - 10**6 * is_wide, own.format)
        if controlled == "RequestsAndLimits":
            self._boost_limit(container, boosted, limits)
        self._look_at_boost(base, requests["cpu"], limits.get("cpu", ZERO))
        if milli(boosted) < milli(self.spec(container, "requests").get("cpu", ZERO)):
            self.mended.add("a boost below the container's own request")
        return {
            word: {
                resource: str(found[resource])
                for resource in BOTH
                if resource in (found := self.spec(container, word))
            }
            for word in ("requests", "limits")
        }

    def _boost_limit(self, container: Json, boosted: Quantity, limits: Amounts) -> None:
        before = limits.get("cpu", self.spec(container, "limits").get("cpu", ZERO))
        follows = self._limit("cpu", container, boosted, ZERO)[0]
        if follows is not None:
            limits["cpu"] = follows
            if follows < before:
                self.mended.add("a boost that lowers the limit")
        elif ZERO < before < boosted:
            self.mended.add("a boost above the usual limit")

    def _look_at_boost(self, base: Quantity, request: Quantity, limit: Quantity) -> None:
        if milli(base) == 0:
            self.mended.add("a boost of no request, which nothing can end")
        if milli(request) <= milli(base):
            self.mended.add("a boost that does not raise")
        most = self.container_range["max"].get("cpu", ZERO) if self.container_range else ZERO
        if ZERO < most < max(request, limit):
            self.mended.add("a boost above the LimitRange for containers")

    # --- the patch

    def patch(self) -> list[Json]:
        """Return the operations of a controlled pod."""
        capped = {entry["name"]: entry["target"] for entry in reversed(self.capped())}
        operations: list[Json] = []
        if self.pod["metadata"].get("annotations") is None:
            operations.append(_add("/metadata/annotations", {}))
        updates = []
        together = 0
        for index, container in enumerate(self.containers):
            self._look_at_fixes(container, capped)
            boosted, changes, words = self._container(index, container, capped)
            operations += boosted + changes
            if changes:
                updates.append(f"container {index}: {', '.join(words)}")
            limit = self.spec(container, "limits").get("cpu", ZERO)
            path = f"/spec/containers/{index}/resources/limits/cpu"
            written = [Quantity.parse(op["value"]) for op in changes if op["path"] == path]
            together += (written or [limit])[0].nano
        if (
            self.gate
            and self.pod_range
            and 0 < self.pod_range["max"].get("cpu", ZERO).nano < together
        ):
            self.mended.add("boosts above the LimitRange for pods")
        if updates:
            told = f"Pod resources updated by {self.vpa['metadata']['name']}: {'; '.join(updates)}"
            operations.append(_add("/metadata/annotations/vpaUpdates", told))
        observed = ", ".join(container["name"] for container in self.containers)
        operations.append(_add("/metadata/annotations/vpaObservedContainers", observed))
        return operations

    def _look_at_fixes(self, container: Json, capped: dict[str, Amounts]) -> None:
        policy = self.policy(container["name"])
        has_boost = "startupBoost" in policy or "startupBoost" in self.vpa["spec"]
        is_touched = has_boost if self.gate else container["name"] in capped
        if policy.get("mode") == "Off" and (is_touched or self.pod_range is not None):
            self.mended.add("container in mode Off")
        stays = any(limit != ZERO for limit in self.spec(container, "limits").values())
        if self.pod_range and stays and policy.get("controlledValues") == "RequestsOnly":
            self.mended.add("a limit that stays under a LimitRange for pods")

    def _container(
        self, index: int, container: Json, capped: dict[str, Amounts]
    ) -> tuple[list[Json], list[Json], list[str]]:
        name = container["name"]
        requests: Amounts = {}
        limits: Amounts = {}
        notes = list(self.notes.get(name, []))
        if name in capped:
            requests = dict(capped[name])
            if self.controlled(name) == "RequestsAndLimits":
                default = self.container_range["default"] if self.container_range else {}
                limits, more = self._limits(container, requests, default)
                notes += more
            requests.pop("", None)
        if self.is_off:
            requests, limits, notes = {}, {}, []
        boosted = []
        if self.gate:
            if self.policy(name).get("mode") == "Off":
                return [], [], []
            original = self._boost(container, requests, limits)
            if original is not None:
                path = f"/metadata/annotations/vpaCpuStartupBoost~1{name}"
                boosted = [_add(path, orjson.dumps(original).decode())]
        changes, words = self._changes(index, container, requests, limits)
        return boosted, changes, notes + words

    def _changes(
        self, index: int, container: Json, requests: Amounts, limits: Amounts
    ) -> tuple[list[Json], list[str]]:
        at = f"/spec/containers/{index}/resources"
        has = container.get("resources") or {}
        changes: list[Json] = []
        words: list[str] = []
        if not requests and not limits:
            return [], []  # upstream would still make sure of `resources`, and say so
        if has.get("requests") is None and has.get("limits") is None:
            changes.append(_add(at, {}))
        for kind, found in (("request", requests), ("limit", limits)):
            if found and has.get(f"{kind}s") is None:
                changes.append(_add(f"{at}/{kind}s", {}))
            for resource in in_order(found):
                escaped = resource.replace("~", "~0").replace("/", "~1")
                changes.append(_add(f"{at}/{kind}s/{escaped}", str(found[resource])))
                words.append(f"{resource} {kind}")
        return changes, words


def _add(path: str, value: object) -> Json:
    return {"op": "add", "path": path, "value": value}

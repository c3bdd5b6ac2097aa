"""Flags of a back-test as values: settings with names, objects of the cluster, prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from app.backtest.core.recorded_fleet import RecordedWorkload
from app.backtest.core.setting_outcomes import Price, Prices
from app.backtest.core.settings import Given, Setting
from app.commands.backtest_flags import BacktestSettings, PriceFlags
from app.flags.command_line import schema
from app.flags.flags import Flag
from app.kube.failures import cause_of
from app.kube.files import RecordedCluster, Unreadable, given_objects
from app.model.errors import BadSetting
from app.model.gates import FeatureGate
from app.model.snapshot import Snapshot
from app.model.text import nearest
from app.model.update_modes import UpdateMode
from app.recommender.configuration import amount_rules
from app.recommender.core.rules import RecommenderRules

PRESENT: Final = "the present flags"
UPSTREAM: Final = "upstream's default"

_SWEPT: Final = ("estimation", "aggregation", "format", "post_processing")
_MODE: Final = "update-mode"
_PERCENTILES: Final = ("target-cpu-percentile", "target-memory-percentile")
_HALF_LIVES: Final = ("cpu-histogram-decay-half-life", "memory-histogram-decay-half-life")
_MARGIN: Final = "recommendation-margin-fraction"


def compared(settings: BacktestSettings, sets: Iterable[str]) -> list[Setting]:
    """Return the present flags, upstream's default where it differs, and each set.

    Raises:
        BadSetting: a set is wrong, or two are the same.
    """
    found = with_usual(Setting(PRESENT, _rules(settings), settings.comparison.mode))
    for text in sets:
        one = _changed(settings, text)
        if any(one.name == other.name for other in found):
            raise BadSetting(f"--set={text} is there twice")
        found.append(one)
    return found


def with_usual(present: Setting) -> list[Setting]:
    """Return the present setting, and upstream's default where it differs."""
    usual = replace(present, name=UPSTREAM, rules=RecommenderRules())
    return [present] if usual.rules == present.rules else [present, usual]


def _changed(settings: BacktestSettings, text: str) -> Setting:
    """Return the present setting with flags of a text in place of some."""
    changes = dict(_changes(text))
    flags = {flag.name: (group, field, flag) for group, field, flag in _flags()}
    mode = settings.comparison.mode
    for name, value in changes.items():
        if name == _MODE:
            if value not in tuple(UpdateMode):
                raise BadSetting(f"--set={text}: {value} is no update mode")
            mode = UpdateMode(value)
            continue
        if name not in flags:
            hint = nearest(name, [*flags, _MODE])
            raise BadSetting(f'--set={text}: the recommender has no flag "{name}"{hint}')
        group, field, flag = flags[name]
        try:
            read: Any = {field: flag.value([value])}
        except BadSetting as error:
            raise BadSetting(f"--set={text}: {error}") from None
        part: Any = {group: replace(getattr(settings, group), **read)}
        settings = replace(settings, **part)
    to_use = tuple(f"--{name}={value}" for name, value in changes.items() if name != _MODE)
    return Setting(setting_name(changes), _rules(settings), mode, to_use)


def _changes(text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, text.split(",")):
        name, equals, value = part.strip().partition("=")
        if not equals or not value:
            raise BadSetting(f'--set={text}: "{part}" is no NAME=VALUE')
        yield name.lstrip("-").replace("_", "-"), value


def _flags() -> Iterator[tuple[str, str, Flag]]:
    for group in schema(BacktestSettings).groups:
        if group.field in _SWEPT:
            yield from ((group.field, field, flag) for field, flag in group.flags.items())


def _rules(settings: BacktestSettings) -> RecommenderRules:
    rules = amount_rules(
        settings.estimation, settings.aggregation, settings.format, settings.post_processing
    )
    gates = settings.comparison.gates
    return replace(rules, per_vpa_config=FeatureGate.PER_VPA_CONFIG in gates)


def setting_name(changes: Mapping[str, str]) -> str:
    """Return a short name for flags that differ from the present ones."""
    rest = dict(changes)
    names = [
        *_pair(rest, _PERCENTILES, lambda value: f"p{float(value) * 100:g}"),
        *_pair(rest, _HALF_LIVES, lambda value: f"half-life {value}"),
    ]
    if (margin := rest.pop(_MARGIN, None)) is not None:
        share = float(margin)
        names.append(f"{share * 100:g}% margin" if share else "no margin")
    if (mode := rest.pop(_MODE, None)) is not None:
        names.append(f"mode {mode}")
    return ", ".join([*names, *(f"{name}={value}" for name, value in rest.items())])


def _pair(
    rest: dict[str, str], flags: tuple[str, str], word: Callable[[str], str]
) -> Iterator[str]:
    """Yield what two flags say, in one word if they agree."""
    cpu, memory = (rest.pop(flag, None) for flag in flags)
    if cpu == memory and cpu is not None:
        yield word(cpu)
        return
    for resource, value in (("CPU", cpu), ("memory", memory)):
        if value is not None:
            yield f"{resource} {word(value)}"


def given_by(paths: Iterable[Path], notes: list[str]) -> Given:
    """Return what VPAs, LimitRanges and scalers in files ask for.

    Raises:
        BadSetting: a file that is named cannot be read.
    """
    unread = list[Unreadable]()
    recorded = RecordedCluster(given_objects(paths, unread))
    notes += map(str, (*unread, *recorded.problems))
    return given_in(recorded.snapshot)


def given_in(snapshot: Snapshot) -> Given:
    """Return what the objects of a cluster ask for."""
    return Given(
        {
            RecordedWorkload(namespace, vpa.target.kind, vpa.target.name): vpa
            for namespace, view in snapshot.namespaces.items()
            for vpa in sorted(view.vpas.values(), key=lambda one: one.precedence, reverse=True)
            if vpa.target is not None
        },
        {namespace: view.limits for namespace, view in snapshot.namespaces.items()},
    )


def prices_of(flags: PriceFlags) -> Prices | None:
    """Return the prices that flags or their file tell, None if there are none.

    Raises:
        BadSetting: only one of two prices is there, or the file cannot be read.
    """
    if flags.file is not None:
        if flags.core is not None or flags.gib is not None:
            raise BadSetting("--price-file and --price-core or --price-gib exclude each other")
        return _prices_in(flags.file)
    if flags.core is None and flags.gib is None:
        return None
    if flags.core is None or flags.gib is None:
        raise BadSetting("--price-core and --price-gib go together")
    return Prices(Price(flags.core, flags.gib))


def _prices_in(path: Path) -> Prices:
    try:
        found = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise BadSetting(f"{path}: cannot be read: {cause_of(error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadSetting(f"{path}: is no YAML") from None
    namespaces = found.get("namespaces", {}) if isinstance(found, dict) else None
    if not isinstance(namespaces, dict):
        raise BadSetting(f"{path}: has no members core and gib, and objects in namespaces")
    return Prices(
        _price(found, str(path)),
        {name: _price(each, f"{path}: namespaces.{name}") for name, each in namespaces.items()},
    )


def _price(found: object, place: str) -> Price:
    prices = [found.get(name) if isinstance(found, dict) else None for name in Price._fields]
    for name, price in zip(Price._fields, prices, strict=True):
        if isinstance(price, bool) or not isinstance(price, int | float) or not price >= 0:
            raise BadSetting(f"{place}: {name} is {price}, and not a price of an hour")
    return Price(*(float(price) for price in prices if isinstance(price, int | float)))

"""Which processes run, ours and upstream's, and how each is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from app.diagnosis.core.facts import Facts, Finding, Level, known
from app.diagnosis.core.processes import ADMISSION, COMPONENTS, Deployment, deployments
from app.model.errors import BadSetting
from app.model.gates import NEEDED_BY, FeatureGate, FeatureGates, parse_gates
from app.model.text import BOOLEANS

# In its manifests and its chart anyway, and about how it is installed.
_UNTOLD: Final = (
    *("--v=", "--stderrthreshold", "--reload-cert", "--register-webhook=", "--webhook-service="),
    "--leader-elect",
)


def of_components(facts: Facts) -> Iterator[Finding]:
    """Judge which processes run, ours and upstream's."""
    known(facts.deployments, "deployment")
    found = deployments(facts)
    yield from _elsewhere([one for one in found if one.is_ours], facts)
    for component in COMPONENTS:
        ours = [one for one in found if one.is_ours and one.component == component]
        theirs = [one for one in found if not one.is_ours and one.component == component]
        yield from map(_ready, ours)
        yield from (_upstream(one, ours) for one in theirs)
        if not ours and not theirs:
            about = f"deployment/vpa-{component}"
            told = "it was not found; it may run by other means"
            yield Finding(Level.NOTE, about, told, is_absence=True)
    for namespace in sorted({one.namespace for one in found if one.is_ours}):
        yield from _switches([one for one in found if one.namespace == namespace and one.replicas])


def _elsewhere(ours: Sequence[Deployment], facts: Facts) -> Iterator[Finding]:
    """Warn if none of our processes lives in the namespace that is looked at."""
    places = {one.namespace for one in ours}
    if facts.namespace not in places:
        for namespace in sorted(places):
            told = f"it is looked at, and our processes live in {namespace}"
            about, fix = f"namespace/{facts.namespace}", f"plumbline doctor -n {namespace}"
            yield Finding(Level.WARNING, about, told, fix)


def _ready(ours: Deployment) -> Finding:
    component, about, wanted = ours.component, ours.about, ours.replicas
    kubectl = f"kubectl -n {ours.namespace}"
    ready = ours.item.get("status", {}).get("availableReplicas", 0)
    if not wanted:
        fix = f"{kubectl} scale {about} --replicas=1"
        return Finding(Level.WARNING, about, f"the {component} is scaled to zero", fix)
    if not ready:
        told = f"no pod of the {component} is available"
        return Finding(Level.SERIOUS, about, told, f"{kubectl} describe {about}")
    return Finding(Level.FINE, about, f"{ready} of {wanted} available")


def _upstream(theirs: Deployment, ours: Sequence[Deployment]) -> Finding:
    component, about = theirs.component, theirs.about
    if not theirs.replicas:
        told = f"upstream's {component} is scaled to zero, ready for the way back"
        return Finding(Level.FINE, about, told)
    if not ours:
        told = f"upstream's {component} runs, and ours does not{_flags_told(theirs)}"
        return Finding(Level.NOTE, about, told)
    if _is_aside(theirs, ours):
        told = f"upstream's {component} runs beside ours, and they do not meet"
        return Finding(Level.FINE, about, told)
    told = f"upstream's {component} still runs, and does the same as ours"
    fix = f"kubectl -n {theirs.namespace} scale {about} --replicas=0"
    return Finding(Level.SERIOUS, about, told, fix)


def _is_aside(theirs: Deployment, ours: Sequence[Deployment]) -> bool:
    """Whether two processes have agreed on who does what."""
    if theirs.component == "updater":
        return all(one.flag("dry-run") not in ("", "false") for one in ours)
    if theirs.component == "recommender":
        name = _recommender_name(theirs)
        return all(_recommender_name(one) != name for one in ours)
    return False


def _recommender_name(found: Deployment) -> str:
    return found.flag("recommender-name") or "default"


def _flags_told(theirs: Deployment) -> str:
    """Return what a process is told, as far as it is not how upstream brings it."""
    words = theirs.command_line
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    told = [word for word in words[first:] if not word.startswith(_UNTOLD)]
    return f"; give ours its flags: {' '.join(told)}" if told else ""


_SIDECARS: Final = "native-sidecars"
_ON: Final = ("", *(word for word, is_on in BOOLEANS.items() if is_on))
_WITHOUT_GATE: Final = {
    (FeatureGate.CPU_STARTUP_BOOST, ADMISSION): "no pod is boosted",
    (FeatureGate.CPU_STARTUP_BOOST, "updater"): "no boost ends, so pods keep their boosted CPU",
    (FeatureGate.CPU_STARTUP_BOOST, "recommender"): "boosted CPU is learned as if it were needed",
    (FeatureGate.IN_PLACE, ADMISSION): "VPAs in mode InPlace are refused",
    (FeatureGate.IN_PLACE, "updater"): "pods of VPAs in mode InPlace are not updated",
    (FeatureGate.PER_VPA_CONFIG, ADMISSION): "VPAs that use it are refused",
    (FeatureGate.PER_VPA_CONFIG, "updater"): "evictAfterOOMSeconds of VPAs does not count",
    (FeatureGate.PER_VPA_CONFIG, "recommender"): "what VPAs say about memory does not count",
}


def _switches(running: Sequence[Deployment]) -> Iterator[Finding]:
    """Warn of what is on in some of the processes that need it, and off in others."""
    ours = {one.component for one in running if one.is_ours}
    acting = [one for one in running if one.is_ours or one.component not in ours]
    known = [(one, gates) for one in acting if (gates := _gates_of(one)) is not None]
    for gate, processes in NEEDED_BY.items():
        found = {one: gate in gates for one, gates in known if one.process in processes}
        for one, names in _different(found):
            effect = _WITHOUT_GATE[gate, one.component]
            told = f"feature gate {gate} is off here, and on in {names}: {effect}"
            fix = one.with_argument(f"--feature-gates={gate}=true")
            yield Finding(Level.WARNING, one.about, told, fix)
    holding = {one: not one.ignores_scalers for one in acting if one.is_ours}
    for one, names in _different(holding):
        told = (
            f"--horizontal=ignore is given here, and not to {names}, so what they hold is changed"
        )
        fix = one.with_argument("--horizontal=hold")
        yield Finding(Level.WARNING, one.about, told, fix)
    sidecars = {one: one.flag(_SIDECARS) in _ON for one in acting if one.is_ours}
    for one, names in _different(sidecars):
        told = f"--{_SIDECARS} is off here, and on in {names}: native sidecars are treated in part"
        fix = one.with_argument(f"--{_SIDECARS}=true")
        yield Finding(Level.WARNING, one.about, told, fix)


def _different(found: Mapping[Deployment, bool]) -> Iterator[tuple[Deployment, str]]:
    """Yield the Deployments in which something is off, if it is on in others, with their names."""
    names = " and ".join(sorted({f"the {one.process}" for one, is_on in found.items() if is_on}))
    if names:
        yield from ((one, names) for one, is_on in found.items() if not is_on)


def _gates_of(found: Deployment) -> FeatureGates | None:
    """Return the gates that are on in a process, None if that is not known."""
    try:
        return parse_gates(found.values("feature-gates"))
    except BadSetting:  # upstream has gates of its own
        return None

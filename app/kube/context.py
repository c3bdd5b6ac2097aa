"""The namespace that people work in: that of their context, or that of the pod they are in."""

from __future__ import annotations

from app.kube.reach import Origin

_USUAL = "default"


def usual_namespace(origin: Origin) -> str:
    """Return the namespace that is meant where none is named."""
    path = origin.kubeconfig_path()
    if not path:
        return _read(origin) or _USUAL
    from kubernetes.config import list_kube_config_contexts  # only now: it takes many megabytes

    contexts, active = list_kube_config_contexts(  # type: ignore[no-untyped-call]  # it has no types
        config_file=path
    )
    named = [found for found in contexts if found.get("name") == origin.context]
    found = named[0] if named else active
    return str((found.get("context") or {}).get("namespace") or _USUAL)


def _read(origin: Origin) -> str:
    try:
        return (origin.service_account / "namespace").read_text("utf-8").strip()
    except OSError:
        return ""

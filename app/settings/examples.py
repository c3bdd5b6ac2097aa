"""Examples of each command, for its help and for completion."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "run": (
        ("plumbline run", "a minute of the built-in shop a second, until Ctrl-C"),
        ("plumbline run --speed max --for 24h", "a day of it, as fast as can be"),
        ("plumbline run --objects manifests/", "with your own workloads and VPAs"),
        ("plumbline run --kubeconfig config --dry-run", "beside a real cluster, writing nothing"),
    ),
    "admission": (
        ("plumbline admission", "in a pod, with its service account"),
        (
            "plumbline admission --objects cluster.yaml --certs-dir certs",
            "without a cluster, for the objects in a file",
        ),
    ),
    "admit": (
        (
            "plumbline admit --objects cluster.yaml --explain review.json",
            "what a pod gets, and why",
        ),
        (
            "kubectl get vpa,deploy -A -o json | plumbline admit --objects - -- review.json",
            "by the objects of a cluster",
        ),
        (
            "plumbline admit --objects cluster.yaml -o table reviews.jsonl",
            "many reviews, a row each",
        ),
    ),
    "certs": (("plumbline certs --certs-dir certs --days 90", "make them for three months"),),
    "updater": (
        ("plumbline updater", "in a pod, with its service account"),
        ("plumbline updater --kubeconfig config --dry-run", "decide and tell, touch nothing"),
    ),
    "recommendations": (
        ("plumbline recommendations -n shop", "of one namespace"),
        ("plumbline recommendations -A -o csv", "of all, for a table program"),
        (
            "plumbline recommendations --from http://localhost:8942 web",
            "of VPA web, from a recommender that is forwarded to here",
        ),
        (
            "kubectl get vpa,pod,sts -A -o json | plumbline recommendations --objects -",
            "of a recorded cluster",
        ),
    ),
    "explain": (
        ("plumbline explain pod/web-0 -n shop", "what becomes of a pod, and why"),
        ("plumbline explain vpa/web", "what becomes of the pods of a VPA"),
        ("plumbline explain -l app=web", "what becomes of all pods with a label"),
        ("plumbline explain web-0 --objects cluster.yaml", "by the objects in a file"),
    ),
    "doctor": (
        ("plumbline doctor --before", "is a cluster ready for an installation?"),
        ("plumbline doctor", "is all well with it?"),
        ("plumbline doctor -o json", "for a pipeline; exit code 1 if something is serious"),
    ),
    "recommender": (
        ("plumbline recommender", "in a pod, with its service account"),
        (
            "plumbline recommender --recommender-name=second",
            "for VPAs that ask for it in spec.recommenders",
        ),
    ),
    "replay": (
        (
            "plumbline replay --objects cluster.yaml --events usage.jsonl",
            "what would be recommended at the end",
        ),
        (
            "plumbline replay --objects cluster.yaml --events usage.jsonl -o table",
            "the same, for people",
        ),
    ),
    "plan": (
        ("plumbline plan -n shop", "what would be done about the pods of a namespace"),
        ("plumbline plan -A -o json web", "about those of VPA web, as JSON"),
        ("plumbline plan --objects cluster.yaml", "for the objects in a file"),
    ),
    "manifests": (
        ("plumbline manifests crd | kubectl apply -f -", "teach a cluster what VPAs are"),
        ("plumbline manifests all -o name", "what would be applied"),
    ),
    "completion": (
        ("source <(plumbline completion bash)", "complete in this shell"),
        (
            "plumbline completion fish > ~/.config/fish/completions/plumbline.fish",
            "complete in every fish",
        ),
    ),
    "version": (
        ("plumbline version", "the version of this program"),
        ("plumbline version -o json", "for a program"),
    ),
}

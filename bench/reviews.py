"""AdmissionReviews of pods as ReplicaSets make them, of about 2.8 KB."""

from __future__ import annotations

from bench.seeds import Json, replica_set

_KIND = {"group": "", "version": "v1", "kind": "Pod"}
_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}
_PROBE = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
_MOUNT = {
    "name": "kube-api-access",
    "readOnly": True,
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
}


def review(where: str, app: str, index: int) -> Json:
    """Return a review of a new pod; no two of them are the same."""
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": f"705ab4f5-6393-11e8-b7cc-{index:012d}",
            "kind": _KIND,
            "resource": _RESOURCE,
            "requestKind": _KIND,
            "requestResource": _RESOURCE,
            "namespace": where,
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kube-system:replicaset-controller",
                "uid": "a7e0ab33-5f29-11e8-8a3c-36e6bb280816",
                "groups": ["system:serviceaccounts", "system:authenticated"],
            },
            "object": new_pod(where, app, index),
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def new_pod(where: str, app: str, index: int) -> Json:
    """Return a pod that a ReplicaSet is about to create."""
    owner = replica_set(app)
    environment = [{"name": f"SETTING_{n}", "value": f"value-{index}-{n}"} for n in range(12)]
    limits = {"cpu": "500m", "memory": "512Mi"}
    requests = {"cpu": f"{100 + index % 50}m", "memory": "256Mi"}
    tolerated = [
        {
            "key": f"node.kubernetes.io/{word}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for word in ("not-ready", "unreachable")
    ]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "generateName": f"{owner}-",
            "creationTimestamp": None,
            "labels": {"app": app, "pod-template-hash": owner.rpartition("-")[2]},
            "annotations": {"prometheus.io/scrape": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner,
                    "uid": f"{where}-{owner}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "volumes": [{"name": "kube-api-access", "emptyDir": {}}],
            "containers": [
                {
                    "name": "main",
                    "image": f"registry.example.com/{app}:v1.{index}",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "env": environment,
                    "resources": {"limits": limits, "requests": requests},
                    "volumeMounts": [_MOUNT],
                    "livenessProbe": _PROBE,
                    "readinessProbe": _PROBE,
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": tolerated,
            "enableServiceLinks": True,
        },
        "status": {},
    }

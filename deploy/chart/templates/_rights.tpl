{{- /*
The rules of each process's roles, those that depend on a flag under the value that sets it.
app/kube/manifests/rights.py says what each is for; a test compares them.
*/ -}}
{{- define "plumbline.rules.admission-controller.ClusterRole" -}}
- apiGroups:
  - autoscaling.k8s.io
  resources:
  - verticalpodautoscalers
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - limitranges
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - replicationcontrollers
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - apps
  resources:
  - daemonsets
  - deployments
  - replicasets
  - statefulsets
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - batch
  resources:
  - cronjobs
  - jobs
  verbs:
  - get
  - list
  - watch
{{- if eq .Values.horizontal "hold" }}
- apiGroups:
  - autoscaling
  resources:
  - horizontalpodautoscalers
  verbs:
  - list
  - watch
- apiGroups:
  - keda.sh
  resources:
  - scaledobjects
  verbs:
  - list
  - watch
{{- end }}
- apiGroups:
  - '*'
  resources:
  - '*/scale'
  verbs:
  - get
- apiGroups:
  - authentication.k8s.io
  resources:
  - tokenreviews
  verbs:
  - create
- apiGroups:
  - authorization.k8s.io
  resources:
  - subjectaccessreviews
  verbs:
  - create
{{- if .Values.admissionController.registerWebhook }}
- apiGroups:
  - admissionregistration.k8s.io
  resources:
  - mutatingwebhookconfigurations
  - validatingwebhookconfigurations
  verbs:
  - create
- apiGroups:
  - admissionregistration.k8s.io
  resources:
  - mutatingwebhookconfigurations
  - validatingwebhookconfigurations
  resourceNames:
  - {{ include "plumbline.fullname" . }}-webhook-config
  verbs:
  - get
  - update
- apiGroups:
  - ''
  resources:
  - events
  verbs:
  - create
{{- end }}
{{- end -}}
{{- define "plumbline.rules.admission-controller.Role" -}}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  - vpa-admission-controller
  verbs:
  - get
  - update
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  - vpa-admission-controller-rotation
  verbs:
  - get
  - update
{{- if not .Values.admissionController.certManager.enabled }}
- apiGroups:
  - ''
  resources:
  - secrets
  resourceNames:
  - vpa-tls-certs
  verbs:
  - get
  - update
{{- end }}
{{- end -}}
{{- define "plumbline.rules.recommender.ClusterRole" -}}
- apiGroups:
  - autoscaling.k8s.io
  resources:
  - verticalpodautoscalers
  verbs:
  - list
  - watch
- apiGroups:
  - autoscaling.k8s.io
  resources:
  - verticalpodautoscalers/status
  verbs:
  - patch
- apiGroups:
  - autoscaling.k8s.io
  resources:
  - verticalpodautoscalercheckpoints
  verbs:
  - list
  - create
  - patch
  - delete
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - get
- apiGroups:
  - ''
  resources:
  - limitranges
  verbs:
  - list
- apiGroups:
  - ''
  resources:
  - replicationcontrollers
  verbs:
  - get
- apiGroups:
  - apps
  resources:
  - daemonsets
  - deployments
  - replicasets
  - statefulsets
  verbs:
  - get
- apiGroups:
  - batch
  resources:
  - cronjobs
  - jobs
  verbs:
  - get
- apiGroups:
  - ''
  resources:
  - events
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - replicationcontrollers
  verbs:
  - list
  - watch
- apiGroups:
  - apps
  resources:
  - daemonsets
  - deployments
  - replicasets
  - statefulsets
  verbs:
  - list
  - watch
- apiGroups:
  - batch
  resources:
  - cronjobs
  - jobs
  verbs:
  - list
  - watch
{{- if eq .Values.horizontal "hold" }}
- apiGroups:
  - autoscaling
  resources:
  - horizontalpodautoscalers
  verbs:
  - list
  - watch
- apiGroups:
  - keda.sh
  resources:
  - scaledobjects
  verbs:
  - list
  - watch
{{- end }}
- apiGroups:
  - '*'
  resources:
  - '*/scale'
  verbs:
  - get
- apiGroups:
  - metrics.k8s.io
  resources:
  - pods
  verbs:
  - list
- apiGroups:
  - authentication.k8s.io
  resources:
  - tokenreviews
  verbs:
  - create
- apiGroups:
  - authorization.k8s.io
  resources:
  - subjectaccessreviews
  verbs:
  - create
{{- end -}}
{{- define "plumbline.rules.recommender.Role" -}}
{{- if include "plumbline.elects" .Values.recommender }}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  - {{ default "vpa-recommender-lease" .Values.recommender.leaderElection.resourceName }}
  verbs:
  - get
  - update
{{- end }}
{{- end -}}
{{- define "plumbline.rules.updater.ClusterRole" -}}
- apiGroups:
  - autoscaling.k8s.io
  resources:
  - verticalpodautoscalers
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - get
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - patch
- apiGroups:
  - ''
  resources:
  - pods/eviction
  verbs:
  - create
- apiGroups:
  - ''
  resources:
  - pods/resize
  verbs:
  - patch
- apiGroups:
  - ''
  resources:
  - limitranges
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - nodes
  verbs:
  - list
  - watch
- apiGroups:
  - policy
  resources:
  - poddisruptionbudgets
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - namespaces
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - replicationcontrollers
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - apps
  resources:
  - daemonsets
  - deployments
  - replicasets
  - statefulsets
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - batch
  resources:
  - cronjobs
  - jobs
  verbs:
  - get
  - list
  - watch
{{- if eq .Values.horizontal "hold" }}
- apiGroups:
  - autoscaling
  resources:
  - horizontalpodautoscalers
  verbs:
  - list
  - watch
- apiGroups:
  - keda.sh
  resources:
  - scaledobjects
  verbs:
  - list
  - watch
{{- end }}
- apiGroups:
  - '*'
  resources:
  - '*/scale'
  verbs:
  - get
- apiGroups:
  - ''
  resources:
  - events
  verbs:
  - create
- apiGroups:
  - authentication.k8s.io
  resources:
  - tokenreviews
  verbs:
  - create
- apiGroups:
  - authorization.k8s.io
  resources:
  - subjectaccessreviews
  verbs:
  - create
{{- end -}}
{{- define "plumbline.rules.updater.Role" -}}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  - vpa-admission-controller
  verbs:
  - get
{{- if include "plumbline.elects" .Values.updater }}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  - {{ default "vpa-updater" .Values.updater.leaderElection.resourceName }}
  verbs:
  - get
  - update
{{- end }}
{{- end -}}
{{- define "plumbline.rules.trials.ClusterRole" -}}
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - create
{{- end -}}
{{- define "plumbline.rules.summaries.ClusterRole" -}}
- apiGroups:
  - autoscaling.k8s.io
  resources:
  - verticalpodautoscalers
  verbs:
  - patch
{{- end -}}
{{- define "plumbline.rules.role-leases.ClusterRole" -}}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - list
  - watch
{{- end -}}
{{- define "plumbline.rules.role-usage.ClusterRole" -}}
- apiGroups:
  - metrics.k8s.io
  resources:
  - pods
  verbs:
  - get
{{- end -}}
{{- define "plumbline.rules.external-metrics.ClusterRole" -}}
- apiGroups:
  - external.metrics.k8s.io
  resources:
  - '*'
  verbs:
  - list
{{- end -}}
{{- define "plumbline.rules.page.ClusterRole" -}}
- apiGroups:
  - autoscaling.k8s.io
  resources:
  - verticalpodautoscalers
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - autoscaling.k8s.io
  resources:
  - verticalpodautoscalercheckpoints
  verbs:
  - get
  - list
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - limitranges
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - nodes
  verbs:
  - list
  - watch
- apiGroups:
  - policy
  resources:
  - poddisruptionbudgets
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - namespaces
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - replicationcontrollers
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - apps
  resources:
  - daemonsets
  - deployments
  - replicasets
  - statefulsets
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - batch
  resources:
  - cronjobs
  - jobs
  verbs:
  - get
  - list
  - watch
{{- if eq .Values.horizontal "hold" }}
- apiGroups:
  - autoscaling
  resources:
  - horizontalpodautoscalers
  verbs:
  - list
  - watch
- apiGroups:
  - keda.sh
  resources:
  - scaledobjects
  verbs:
  - list
  - watch
{{- end }}
- apiGroups:
  - '*'
  resources:
  - '*/scale'
  verbs:
  - get
- apiGroups:
  - ''
  resources:
  - events
  verbs:
  - list
  - watch
- apiGroups:
  - metrics.k8s.io
  resources:
  - pods
  verbs:
  - list
- apiGroups:
  - authentication.k8s.io
  resources:
  - tokenreviews
  verbs:
  - create
- apiGroups:
  - authorization.k8s.io
  resources:
  - subjectaccessreviews
  verbs:
  - create
- apiGroups:
  - apiextensions.k8s.io
  resources:
  - customresourcedefinitions
  resourceNames:
  - verticalpodautoscalers.autoscaling.k8s.io
  - verticalpodautoscalercheckpoints.autoscaling.k8s.io
  verbs:
  - get
- apiGroups:
  - admissionregistration.k8s.io
  resources:
  - mutatingwebhookconfigurations
  - validatingwebhookconfigurations
  verbs:
  - list
{{- end -}}
{{- define "plumbline.rules.page.Role" -}}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  - vpa-admission-controller
  - vpa-recommender
  - vpa-recommender-lease
  - vpa-updater
  - vpa-updater-lease
  verbs:
  - get
- apiGroups:
  - discovery.k8s.io
  resources:
  - endpointslices
  verbs:
  - list
{{- end -}}

{{- /*
The webhook configurations of app/kube/manifests/admission.yaml, with the values that a user may set.
*/ -}}
{{- define "plumbline.registration" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: {{ include "plumbline.fullname" . }}-webhook-config
  labels:
    {{- include "plumbline.labels" (list . "admission-controller") | nindent 4 }}
  {{- if not .Values.admissionController.registerWebhook }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/plumbline-webhook
  {{- end }}
webhooks:
- name: vpa.k8s.io
  admissionReviewVersions:
  - v1
  clientConfig:
    service:
      namespace: {{ .Release.Namespace }}
      name: {{ .Values.admissionController.service.name }}
      path: /mutate
      port: 443
  sideEffects: None
  failurePolicy: {{ .Values.admissionController.mutatingWebhookConfiguration.failurePolicy }}
  timeoutSeconds: {{ .Values.admissionController.mutatingWebhookConfiguration.timeoutSeconds }}
  matchPolicy: Equivalent
  namespaceSelector: {}
  objectSelector: {}
  reinvocationPolicy: Never
  matchConditions:
  - name: no-mirror-pods
    expression: >-
      !(request.resource.group == '' && request.resource.resource == 'pods' && has(object.metadata.annotations)
      && 'kubernetes.io/config.mirror' in object.metadata.annotations)
  - name: no-admission-pods
    expression: >-
      !(request.resource.group == '' && request.resource.resource == 'pods' && request.namespace
      == '{{ .Release.Namespace }}' && has(object.metadata.labels) && (('app' in object.metadata.labels
      && object.metadata.labels['app'] == 'vpa-admission-controller') || ('app.kubernetes.io/component'
      in object.metadata.labels && object.metadata.labels['app.kubernetes.io/component']
      == 'admission-controller' && 'app.kubernetes.io/name' in object.metadata.labels
      && object.metadata.labels['app.kubernetes.io/name'] in ['plumbline', 'vertical-pod-autoscaler'])))
  rules:
  - operations:
    - CREATE
    apiGroups:
    - ''
    apiVersions:
    - v1
    resources:
    - pods
    scope: '*'
  - operations:
    - CREATE
    - UPDATE
    apiGroups:
    - autoscaling.k8s.io
    apiVersions:
    - '*'
    resources:
    - verticalpodautoscalers
    scope: '*'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: {{ include "plumbline.fullname" . }}-webhook-config
  labels:
    {{- include "plumbline.labels" (list . "admission-controller") | nindent 4 }}
  {{- if not .Values.admissionController.registerWebhook }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/plumbline-webhook
  {{- end }}
webhooks:
- name: validate.vpa.k8s.io
  admissionReviewVersions:
  - v1
  clientConfig:
    service:
      namespace: {{ .Release.Namespace }}
      name: {{ .Values.admissionController.service.name }}
      path: /validate
      port: 443
  sideEffects: None
  failurePolicy: {{ .Values.admissionController.mutatingWebhookConfiguration.failurePolicy }}
  timeoutSeconds: {{ .Values.admissionController.mutatingWebhookConfiguration.timeoutSeconds }}
  matchPolicy: Equivalent
  namespaceSelector: {}
  objectSelector: {}
  matchConditions: []
  rules:
  - operations:
    - CREATE
    - UPDATE
    apiGroups:
    - autoscaling.k8s.io
    apiVersions:
    - '*'
    resources:
    - verticalpodautoscalers
    scope: '*'
{{- end -}}

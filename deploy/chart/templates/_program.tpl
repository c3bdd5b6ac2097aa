{{/*
Everything of one process but what only the webhook has. Takes a dict: root, values, component,
verb, port, and args, ports, volumes, mounts beside those that all have, pages of metrics that
ask for a token, which is sent by TLS, or where it was said that something else encrypts, whether the
port speaks TLS with a certificate of its own, and the name of the Service if it is another one.
*/}}
{{- define "plumbline.program" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $name := printf "%s-%s" (include "plumbline.fullname" $root) .component -}}
{{- $account := include "plumbline.account" . -}}
{{- $tls := default "" $values.tlsSecret -}}
{{- $reads := or $tls $values.tokensOverHttp -}}
{{- if $values.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $account }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "plumbline.labels" (list $root .component) | nindent 4 }}
    {{- with $values.serviceAccount.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- if $root.Values.rbac.create }}
{{- range $kind := list "ClusterRole" "Role" }}
{{- $rules := include (printf "plumbline.rules.%s.%s" $.component $kind) $root | trim }}
{{- if $rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: plumbline:{{ $name }}
  {{- if eq $kind "Role" }}
  namespace: {{ $root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "plumbline.labels" (list $root $.component) | nindent 4 }}
rules:
  {{- $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: plumbline:{{ $name }}
  {{- if eq $kind "Role" }}
  namespace: {{ $root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "plumbline.labels" (list $root $.component) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: plumbline:{{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $account }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}
{{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "plumbline.metadata" (list $root .component $name) | nindent 2 }}
  {{- with $values.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  replicas: {{ $values.replicas }}
  revisionHistoryLimit: {{ $values.revisionHistoryLimit }}
  selector:
    matchLabels:
      app: {{ $name }}
  template:
    metadata:
      labels:
        app: {{ $name }}
        {{- include "plumbline.labels" (list $root .component) | nindent 8 }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $account }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if $values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      securityContext:
        {{- toYaml $root.Values.podSecurityContext | nindent 8 }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- with $values.topologySpreadConstraints }}
        {{- toYaml . | nindent 8 }}
        {{- else }}
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app: {{ $name }}
        {{- end }}
      terminationGracePeriodSeconds: 45
      containers:
        - name: {{ .component }}
          image: {{ include "plumbline.image" (list $root $values) | quote }}
          imagePullPolicy: {{ default $root.Values.image.pullPolicy $values.image.pullPolicy }}
          args:
            - {{ .verb }}
            {{- if ne $root.Values.horizontal "hold" }}
            - --horizontal={{ $root.Values.horizontal }}
            {{- end }}
            {{- range .args }}
            - {{ . | quote }}
            {{- end }}
            {{- if $values.logLevel }}
            - --v={{ $values.logLevel }}
            {{- end }}
            {{- if $tls }}
            - --tls-cert-file=/etc/tls-certs/tls.crt
            - --tls-private-key=/etc/tls-certs/tls.key
            {{- end }}
            {{- if $values.tokensOverHttp }}
            - --tokens-over-http=true
            {{- end }}
            {{- range $values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            {{- with .ports }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
            - name: prometheus
              containerPort: {{ .port }}
          livenessProbe:
            httpGet:
              path: /livez
              port: prometheus
              {{- if or $tls .https }}
              scheme: HTTPS
              {{- end }}
            initialDelaySeconds: 5
            timeoutSeconds: 5
          readinessProbe:
            httpGet:
              path: /readyz
              port: prometheus
              {{- if or $tls .https }}
              scheme: HTTPS
              {{- end }}
            periodSeconds: 5
            timeoutSeconds: 5
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- toYaml $root.Values.containerSecurityContext | nindent 12 }}
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            {{- if $tls }}
            - name: tls-certs
              mountPath: /etc/tls-certs
              readOnly: true
            {{- end }}
            {{- with .mounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir:
            medium: Memory
            sizeLimit: 64Mi
        {{- if $tls }}
        - name: tls-certs
          secret:
            secretName: {{ $tls }}
        {{- end }}
        {{- with .volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "plumbline.metadata" (list $root .component (default (printf "%s-metrics" $name) .service)) | nindent 2 }}
spec:
  selector:
    app: {{ $name }}
  ports:
    - name: prometheus
      port: {{ .port }}
      targetPort: prometheus
{{- if $values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "plumbline.metadata" (list $root .component $name) | nindent 2 }}
spec:
  {{- if $values.podDisruptionBudget.minAvailable }}
  minAvailable: {{ $values.podDisruptionBudget.minAvailable }}
  {{- else }}
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable }}
  {{- end }}
  selector:
    matchLabels:
      app: {{ $name }}
{{- end }}
{{- include "plumbline.policy" (dict "root" $root "values" $values "component" .component "name" $name "ports" .ports) }}
{{- if $root.Values.monitoring.serviceMonitors }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  {{- include "plumbline.metadata" (list $root .component $name) | nindent 2 }}
    {{- with $root.Values.monitoring.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: plumbline
      app.kubernetes.io/component: {{ .component }}
      app.kubernetes.io/part-of: vertical-pod-autoscaler
      app.kubernetes.io/instance: {{ $root.Release.Name }}
  endpoints:
    {{- range $page := concat (list "/metrics") (ternary .pages list (and $reads .pages | empty | not)) }}
    - port: prometheus
      path: {{ $page }}
      honorLabels: true
      {{- if $tls }}
      scheme: https
      tlsConfig:
        ca:
          secret:
            name: {{ $tls }}
            key: ca.crt
        serverName: {{ default (printf "%s-metrics" $name) $.service }}
      {{- else if $.https }}
      scheme: https
      tlsConfig:
        insecureSkipVerify: true
      {{- end }}
      {{- if ne $page "/metrics" }}
      bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
      {{- end }}
    {{- end }}
{{- end }}
{{- end -}}

{{/* The account of a process: takes a dict with root, values and component. */}}
{{- define "plumbline.account" -}}
{{- default (printf "%s-%s" (include "plumbline.fullname" .root) .component) .values.serviceAccount.name -}}
{{- end -}}

{{/*
The right that a flag needs, beside those that a process has anyway. Takes a dict: root, values,
component, and the name of the right.
*/}}
{{- define "plumbline.option" -}}
{{- $role := printf "plumbline:%s-%s:%s" (include "plumbline.fullname" .root) .component .name -}}
{{- if .root.Values.rbac.create }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $role }}
  labels:
    {{- include "plumbline.labels" (list .root .component) | nindent 4 }}
rules:
  {{- include (printf "plumbline.rules.%s.ClusterRole" .name) .root | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $role }}
  labels:
    {{- include "plumbline.labels" (list .root .component) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $role }}
subjects:
  - kind: ServiceAccount
    name: {{ include "plumbline.account" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
{{- end -}}

{{/* Whether a process elects, by its values: as it is told, else where there are several. */}}
{{- define "plumbline.elects" -}}
{{- $told := .leaderElection.enabled -}}
{{- $several := gt (int .replicas) 1 -}}
{{- if and $several (kindIs "bool" $told) (not $told) -}}
{{- fail "leaderElection.enabled is false, so replicas must be 1: several would do the same work twice" -}}
{{- end -}}
{{- if ternary $told $several (kindIs "bool" $told) }}true{{ end -}}
{{- end -}}

{{/* The flags of leader election, by the values of a process. */}}
{{- define "plumbline.election" -}}
{{- $election := .leaderElection -}}
{{- $args := list -}}
{{- if include "plumbline.elects" . -}}
{{- $args = list "--leader-elect=true" "--leader-elect-resource-namespace=$(NAMESPACE)" -}}
{{- range $flag, $value := dict "resource-name" $election.resourceName "lease-duration" $election.leaseDuration "renew-deadline" $election.renewDeadline "retry-period" $election.retryPeriod -}}
{{- if $value -}}
{{- $args = append $args (printf "--leader-elect-%s=%s" $flag $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $args -}}
{{- end -}}

{{/*
Who may reach the pods of a process, and whom they may reach. Takes a dict: root, values, component,
name, and ports beside that of metrics. Pods in the network of their host have no policy.
*/}}
{{- define "plumbline.policy" -}}
{{- $policies := .root.Values.networkPolicies -}}
{{- if and $policies.enabled (not .values.hostNetwork) }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "plumbline.metadata" (list .root .component .name) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      app: {{ .name }}
  policyTypes:
    - Ingress
    - Egress
  ingress:
    - from:
        {{- range $policies.monitoringNamespaces }}
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: {{ . }}
        {{- end }}
        - podSelector:
            matchLabels:
              app.kubernetes.io/name: plumbline
      ports:
        - port: prometheus
    {{- range .ports }}
    - ports:
        - port: {{ .name }}
      {{- with $policies.apiServers.cidrs }}
      from:
        {{- range . }}
        - ipBlock:
            cidr: {{ . }}
        {{- end }}
      {{- end }}
    {{- end }}
  egress:
    - ports:
        {{- range $policies.apiServers.ports }}
        - port: {{ . }}
        {{- end }}
      {{- with $policies.apiServers.cidrs }}
      to:
        {{- range . }}
        - ipBlock:
            cidr: {{ . }}
        {{- end }}
      {{- end }}
    {{- if has .component (list "recommender" "page") }}
    {{- with $policies.monitoringNamespaces }}
    - to:
        {{- range . }}
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: {{ . }}
        {{- end }}
    {{- end }}
    - ports:
        - port: 53
        - port: 53
          protocol: UDP
    {{- end }}
{{- end }}
{{- end -}}

{{/*
The name that everything begins with: the release's, and in it or behind it the chart's. With the
longest ending of a Service's name it still is a name.
*/}}
{{- define "plumbline.fullname" -}}
{{- $short := default "vpa" .Values.nameOverride -}}
{{- $usual := contains $short .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $short) -}}
{{- default $usual .Values.fullnameOverride | trunc 34 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels of an object of a component: list of root and component. */}}
{{- define "plumbline.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: plumbline
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/part-of: vertical-pod-autoscaler
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object in the release's namespace: list of root, component and name. */}}
{{- define "plumbline.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 2 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "plumbline.labels" (list $root (index . 1)) | nindent 2 }}
{{- end -}}

{{/* The image of a process: list of root and its values. */}}
{{- define "plumbline.image" -}}
{{- $root := index . 0 -}}
{{- $own := (index . 1).image -}}
{{- $image := mergeOverwrite (deepCopy $root.Values.image) $own -}}
{{- if or $own.repository $own.tag -}}
{{- $_ := set $image "digest" $own.digest -}}
{{- end -}}
{{ $image.repository }}:{{ default $root.Chart.AppVersion $image.tag }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{- /*
The templates in folders are the files of manifests/ with values put in. A test compares what both
give: change them together.
*/}}

{{- define "gang-extender.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The version of a managed cluster has a suffix, such as v1.36.3-gke.1, that no image has. */}}
{{- define "gang-extender.kubeScheduler" -}}
{{- $of := .Values.scheduler.kubeScheduler -}}
{{ $of.repository }}:{{ $of.version | default (regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version) }}
{{- end }}

{{- /*
The settings as YAML, or nothing: those of the values, and what the processes cannot know of the
release. They take gang-extender-system for their namespace where nothing is said.
*/}}
{{- define "gang-extender.settings" -}}
{{- $settings := deepCopy .Values.settings }}
{{- $namespace := .Release.Namespace }}
{{- if ne $namespace "gang-extender-system" }}
  {{- $_ := merge $settings (dict "reconcile" (dict "leaseNamespace" $namespace)) }}
  {{- $_ := merge $settings (dict "webhooks" (dict "namespace" $namespace)) }}
  {{- if not (dig "queue" "managedJobsNamespaceSelector" false $settings) }}
    {{- $others := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list "kube-system" $namespace) }}
    {{- $selector := dict "matchExpressions" (list $others) }}
    {{- $_ := merge $settings (dict "queue" (dict "managedJobsNamespaceSelector" $selector)) }}
  {{- end }}
{{- end }}
{{- if eq .Values.mode "queueOnly" }}
  {{- if not (hasKey ($settings.queue | default dict) "podGroups") }}
    {{- $_ := merge $settings (dict "queue" (dict "podGroups" "Off")) }}
  {{- end }}
{{- end }}
{{- /* The flag of the reconciler says it too; `gang-extender check` reads this file alone. */}}
{{- if and $settings .Values.besideKueue }}
  {{- $_ := mergeOverwrite $settings (dict "queue" (dict "enabled" false)) }}
{{- end }}
{{- if $settings }}{{ toYaml $settings }}{{ end }}
{{- end }}

{{- /*
Something where pods of groups start behind a gate: by choice, or because the cluster grows, where no
node is to be added for pods that cannot start.
*/}}
{{- define "gang-extender.gates" -}}
{{- $grows := and (dig "gang" "growing" false .Values.settings) (ne .Values.mode "queueOnly") }}
{{- $served := semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version }}
{{- if or .Values.optional.gangGatePolicy (and $grows $served) }}true{{ end }}
{{- end }}

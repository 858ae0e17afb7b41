{{/* A policy of the folder policies and its binding: called with a list of root, the file's name, and what to write into
     the policy's first variables, by name. Before Kubernetes 1.30 there are no policies. */}}
{{- define "gpuloom.policy" -}}
{{- $root := index . 0 -}}
{{- $lists := index . 2 -}}
{{- if semverCompare ">=1.30.0-0" $root.Capabilities.KubeVersion.Version -}}
{{- $name := printf "%s-%s" (include "gpuloom.fullname" $root) (index . 1) -}}
{{- $ours := list $root "hami-scheduler" $name -}}
{{- $written := $root.Files.Get (printf "policies/%s.yaml" (index . 1)) | fromYaml }}
{{- range $written.spec.variables -}}
{{- if hasKey $lists .name -}}
{{- $_ := set . "expression" (get $lists .name | toJson) -}}
{{- end -}}
{{- end -}}
---
apiVersion: {{ $written.apiVersion }}
kind: {{ $written.kind }}
metadata:
  {{- include "gpuloom.metadata" $ours | nindent 2 }}
spec:
  {{- toYaml $written.spec | nindent 2 }}
---
apiVersion: {{ $written.apiVersion }}
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- include "gpuloom.metadata" $ours | nindent 2 }}
spec:
  policyName: {{ $name }}
  validationActions: [Deny]
{{- end }}
{{- end -}}

{{/* The user name of an account of this release. */}}
{{- define "gpuloom.user" -}}system:serviceaccount:{{ (index . 0).Release.Namespace }}:{{ index . 1 }}{{- end -}}

{{/* Who may write what only gpuloom writes, as a JSON list: its own accounts and those of vendors' plugins. */}}
{{- define "gpuloom.writers" -}}
{{- $accounts := list (include "gpuloom.user" (list . (include "gpuloom.scheduler" .))) (include "gpuloom.user" (list . (include "gpuloom.devicePlugin" .))) -}}
{{- concat $accounts (default list .Values.scheduler.admissionPolicy.accounts) | toJson -}}
{{- end -}}

{{/* The pod annotations that only gpuloom writes, as a JSON list. */}}
{{- define "gpuloom.ownedAnnotations" -}}
{{- concat (.Files.Lines "policies/owned-annotations.txt" | compact) (default list .Values.vendors.ownedAnnotations) | uniq | toJson -}}
{{- end -}}

{{/* The resources of devices as a JSON object, in which a policy finds a name at once. */}}
{{- define "gpuloom.managedNames" -}}
{{- $names := dict -}}
{{- range include "gpuloom.managedResources" . | fromJsonArray }}{{ $_ := set $names . true }}{{ end -}}
{{- $names | toJson -}}
{{- end -}}

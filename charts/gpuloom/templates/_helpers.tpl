{{/* Names, labels and images, each defined once. */}}

{{- define "gpuloom.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* What all names begin with. A Service's begins with a letter and has no dot, a release may be called gpu.loom or 2024. */}}
{{- define "gpuloom.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = .Release.Name -}}
{{- if not (contains (include "gpuloom.name" .) $name) }}{{ $name = printf "%s-%s" $name (include "gpuloom.name" .) }}{{ end -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "%s-%s" .Chart.Name $name }}{{ end -}}
{{- end -}}
{{- $name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "gpuloom.scheduler" -}}{{ include "gpuloom.fullname" . }}-scheduler{{- end -}}
{{- define "gpuloom.devicePlugin" -}}{{ include "gpuloom.fullname" . }}-device-plugin{{- end -}}
{{- define "gpuloom.monitor" -}}{{ include "gpuloom.fullname" . }}-monitor{{- end -}}
{{- define "gpuloom.web" -}}{{ include "gpuloom.scheduler" . }}-web{{- end -}}
{{- define "gpuloom.webhook" -}}{{ include "gpuloom.fullname" . }}-webhook{{- end -}}
{{/* cert-manager's is another one, so that no pod starts with the scheduler's own certificate when cert-manager takes
     over: the API server does not trust that one any more. */}}
{{- define "gpuloom.tlsSecret" -}}
{{ include "gpuloom.scheduler" . }}{{ if .Values.scheduler.certManager.enabled }}-cert-manager{{ end }}-tls
{{- end -}}
{{- define "gpuloom.authority" -}}{{ include "gpuloom.scheduler" . }}-authority{{- end -}}

{{/* kube-scheduler, which is in the scheduler's pod, has an account of its own, and its token in a Secret. */}}
{{- define "gpuloom.kubeScheduler" -}}{{ include "gpuloom.fullname" . }}-kube-scheduler{{- end -}}
{{- define "gpuloom.kubeSchedulerToken" -}}{{ include "gpuloom.kubeScheduler" . }}-token{{- end -}}

{{/* What finds the pods of one component: called with a list of root and component. The schedulers' component has the
name by which they find each other, which is HAMi's. No value is in it: selectors of a release cannot change. */}}
{{- define "gpuloom.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* The labels of an object: called with a list of root, component, and labels of its own, if it has some. Of one key the
     chart's label counts, then the object's own, then everybody's. Flux adds the commit to the chart's version, with a +
     that no label may have. */}}
{{- define "gpuloom.labels" -}}
{{- $root := index . 0 -}}
{{- $labels := include "gpuloom.selector" . | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- range append (slice . 2) $root.Values.global.labels -}}
{{- range $key, $value := . }}{{ if not (hasKey $labels $key) }}{{ $_ := set $labels $key $value }}{{ end }}{{ end -}}
{{- end -}}
{{ toYaml $labels }}
{{- end -}}

{{/* The metadata of an object: called with a list of root, component and name; a namespaced object adds its own. */}}
{{- define "gpuloom.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 2 | quote }}
labels:
  {{- include "gpuloom.labels" (list $root (index . 1)) | nindent 2 }}
{{- with $root.Values.global.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where a process finds the token of its account, and the volume with the token that the kubelet renews and that ends
with the pod. Only containers that talk to the API server mount it: nothing is mounted of itself. */}}
{{- define "gpuloom.accountPath" -}}/var/run/secrets/kubernetes.io/serviceaccount{{- end -}}

{{- define "gpuloom.accountVolume" -}}
- name: account
  projected:
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3607
      - configMap:
          name: kube-root-ca.crt
          items:
            - key: ca.crt
              path: ca.crt
      - downwardAPI:
          items:
            - path: namespace
              fieldRef:
                fieldPath: metadata.namespace
{{- end -}}

{{- define "gpuloom.accountMount" -}}
- name: account
  mountPath: {{ include "gpuloom.accountPath" . }}
  readOnly: true
{{- end -}}

{{/* An image of gpuloom: called with a list of root and image value. Without a registry, Kubernetes takes it for one at
     docker.io: whoever registers the name gpuloom there would be root on nodes. */}}
{{- define "gpuloom.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $registry := default $root.Values.global.imageRegistry $image.registry -}}
{{- $tag := default (default $root.Chart.AppVersion $root.Values.global.imageTag) $image.tag -}}
{{- if and (not $registry) (hasPrefix "gpuloom/" $image.repository) -}}
{{- fail (printf "%s has no registry, and gpuloom publishes nothing at docker.io: build and push the images (docs/installation.md#images), and set global.imageRegistry to where they are (docker.io, if you pushed them there)" $image.repository) -}}
{{- end -}}
{{- with $registry }}{{ . }}/{{ end }}{{ $image.repository }}:{{ $tag }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{/* The Kubernetes that gpuloom is tested with. */}}
{{- define "gpuloom.testedKubernetes" -}}v1.37.2{{- end -}}

{{/* The version of kube-scheduler: the cluster's, where that is known. helm install has asked the cluster, and knows its
     kinds; so does whoever gives them to helm template (Argo CD), and a version that somebody names usually has a patch.
     Alone, helm template believes in a v1.N.0 of its own: then it is the tested version, but never a newer one than that,
     because kube-scheduler may be older than the API server and not newer. */}}
{{- define "gpuloom.kubeSchedulerVersion" -}}
{{- $said := semver .Capabilities.KubeVersion.Version -}}
{{- $tested := include "gpuloom.testedKubernetes" . -}}
{{- $known := or (.Capabilities.APIVersions.Has "v1/Pod") (gt (int $said.Patch) 0) $said.Prerelease -}}
{{- $version := printf "v%d.%d.%d" $said.Major $said.Minor $said.Patch -}}
{{- if or $known (semverCompare (printf "<%s" (regexReplaceAll "[.][0-9]+$" $tested ".0")) (printf "%d.%d.0" $said.Major $said.Minor)) -}}
{{- $version -}}
{{- else -}}
{{- $tested -}}
{{- end -}}
{{- end -}}

{{/* The image of kube-scheduler is Kubernetes' own: a registry of gpuloom's images need not have it. */}}
{{- define "gpuloom.kubeSchedulerImage" -}}
{{- $image := .Values.scheduler.kubeScheduler.image -}}
{{- $registry := default "registry.k8s.io" $image.registry -}}
{{- $tag := default (include "gpuloom.kubeSchedulerVersion" .) $image.tag -}}
{{- if and (eq $registry "registry.k8s.io") (not (regexMatch "^v[0-9]" $tag)) -}}
{{- fail (printf "scheduler.kubeScheduler.image.tag is %s, but tags at registry.k8s.io are versions such as %s: write your cluster's, with its v, or nothing" $tag (include "gpuloom.testedKubernetes" .)) -}}
{{- end -}}
{{ $registry }}/{{ $image.repository }}:{{ $tag }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{/* References to pull secrets: called with a list of root and image values. Each is a name, or has one as in a pod. */}}
{{- define "gpuloom.pullSecrets" -}}
{{- $secrets := default list (index . 0).Values.global.imagePullSecrets -}}
{{- range rest . -}}
{{- $secrets = concat $secrets (default list .pullSecrets) -}}
{{- end -}}
{{- $names := list -}}
{{- range $secrets -}}
{{- $name := . -}}
{{- if kindIs "map" . }}{{ $name = .name }}{{ end -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- with $names | uniq }}
imagePullSecrets:
  {{- range . }}
  - name: {{ quote . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Annotations of an object's own and everybody's, of which either may be null: called with a list of root and its own. */}}
{{- define "gpuloom.annotations" -}}
{{- merge (dict) (default dict (index . 1)) (default dict (index . 0).Values.global.annotations) | toYaml -}}
{{- end -}}

{{/* The annotations of a pod template: called with a list of root, the chart's own and the component's. */}}
{{- define "gpuloom.podAnnotations" -}}
{{- include "gpuloom.annotations" (list (index . 0) (merge (dict) (index . 1) (default dict (index . 2)))) -}}
{{- end -}}

{{/* A truth that HAMi's chart writes as text. */}}
{{- define "gpuloom.truth" -}}{{ eq (toString .) "true" }}{{- end -}}

{{/* Arguments that a user adds, as a list in YAML: called with the list and with flags that stand in HAMi's values and that
     the program does not know: they are left out, with their value behind a = or in the next argument. */}}
{{- define "gpuloom.extraArgs" -}}
{{- $kept := list -}}
{{- $unknown := index . 1 -}}
{{- $before := "" -}}
{{- range index . 0 -}}
{{- $flag := regexFind "^--?[a-z][-a-z]*" . | trimPrefix "-" | trimPrefix "-" -}}
{{- $isValue := and $before (not (hasPrefix "-" .)) -}}
{{- $before = ternary "x" "" (and (has $flag $unknown) (not (regexMatch "[= ]" .))) -}}
{{- if not (or $isValue (has $flag $unknown)) }}{{ $kept = append $kept . }}{{ end -}}
{{- end -}}
{{- with $kept }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* A value as text; of a number all digits, which templates write as 1e+06. */}}
{{- define "gpuloom.text" -}}{{ if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}{{- end -}}

{{/* The port of an address host:port. */}}
{{- define "gpuloom.port" -}}{{ regexFind "[0-9]+$" . }}{{- end -}}

{{- define "gpuloom.metricsPort" -}}
{{- with .Values.scheduler.metricsBindAddress }}{{ include "gpuloom.port" . }}{{ end -}}
{{- end -}}

{{/* Only one replica can decide without a lease. */}}
{{- define "gpuloom.replicas" -}}
{{- if .Values.scheduler.leaderElect }}{{ toJson .Values.scheduler.replicas }}{{ else }}1{{ end -}}
{{- end -}}

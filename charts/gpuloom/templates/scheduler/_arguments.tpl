{{/* What a container that needs nothing of its node may do. */}}
{{- define "gpuloom.closed" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The scheduler's flags, one a line. */}}
{{- define "gpuloom.schedulerArgs" -}}
{{- $scheduler := .Values.scheduler -}}
- --http_bind=:9443
- --extender-bind=127.0.0.1:9398
- --metrics-bind-address={{ $scheduler.metricsBindAddress }}
- --metrics-auth={{ .Values.metricsAuth }}
- --legacy-metrics={{ .Values.legacyMetrics }}
{{- with $scheduler.admissionWebhook.clientCA }}
{{- if .configMap }}
- --webhook-client-ca=/webhook-client-ca/{{ .key }}
{{- with .names }}
- --webhook-client-names={{ join "," . }}
{{- end }}
{{- else if .names }}
{{- fail (printf "scheduler.admissionWebhook.clientCA.names is %s, but without clientCA.configMap nobody has to show a certificate: name the ConfigMap with the authorities, or leave the names out" (join "," .names)) }}
{{- end }}
{{- end }}
{{- if $scheduler.certManager.enabled }}
- --cert_file=/tls/tls.crt
- --key_file=/tls/tls.key
{{- else }}
- --tls-self-manage={{ include "gpuloom.tlsSecret" . }}
- --tls-hosts={{ include "gpuloom.tlsHosts" . }}
{{- if $scheduler.admissionWebhook.enabled }}
- --tls-webhook={{ include "gpuloom.webhook" . }}
{{- end }}
{{- end }}
{{- if $scheduler.dashboard.enabled }}
- --web-bind=:9396
{{- if include "gpuloom.asksMonitors" . }}
- --monitor-interval={{ $scheduler.dashboard.monitorInterval }}
{{- if .Values.metricsAuth }}
- --monitor-token-file=/monitor-token/token
{{- end }}
{{- end }}
{{- end }}
{{- with $scheduler.kubeQPS }}
- --kube-qps={{ toJson . }}
{{- end }}
{{- with $scheduler.kubeBurst }}
- --kube-burst={{ toJson . }}
{{- end }}
{{- with $scheduler.kubeTimeout }}
- --kube-timeout={{ toJson . }}
{{- end }}
- --scheduler-name={{ .Values.schedulerName }}
- --device-config-file=/device-config/device-config.yaml
{{- include "gpuloom.deviceFlags" . }}
{{- if .Values.vendors.profiles }}
- --vendor-dir=/vendors
{{- end }}
- --node-scheduler-policy={{ $scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy }}
- --gpu-scheduler-policy={{ $scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy }}
{{- with include "gpuloom.workloadKey" . }}
- --workload-file=/workload/{{ . }}
{{- end }}
- --node-choice={{ $scheduler.nodeChoice }}
- --force-overwrite-default-scheduler={{ $scheduler.forceOverwriteDefaultScheduler }}
- --node-lock={{ $scheduler.nodeLock }}
- --node-lock-timeout={{ $scheduler.nodeLockExpire }}
{{- with $scheduler.nodeLockRetryTimeout }}
- --node-lock-retry-timeout={{ . }}
{{- end }}
{{- if $scheduler.preemption.enabled }}
- --preemption=on
- --preemption-budgets={{ $scheduler.preemption.budgets }}
- --preemption-most-plans={{ toJson $scheduler.preemption.mostPlans }}
- --preemption-min-age={{ $scheduler.preemption.minAge }}
{{- else }}
- --preemption=off
{{- end }}
{{- with $scheduler.preemption.spares }}
- --preemption-spares={{ join "," . }}
{{- end }}
{{- with $scheduler.defragmentation }}
{{- if .enabled }}
- --defragmentation=on
- --defragmentation-wait={{ .wait }}
- --defragmentation-interval={{ .interval }}
- --defragmentation-most-moves={{ toJson .mostMoves }}
- --defragmentation-timeout={{ .timeout }}
{{- else }}
- --defragmentation=off
{{- end }}
{{- end }}
{{- if $scheduler.cpuOnlyPods.avoidGpuNodes }}
{{- $labels := default .Values.devicePlugin.nvidiaNodeSelector $scheduler.cpuOnlyPods.nodeLabels }}
{{- if not $labels }}
{{- fail "scheduler.cpuOnlyPods.avoidGpuNodes needs nodeLabels beside it, or devicePlugin.nvidiaNodeSelector: nothing tells nodes with GPUs" }}
{{- end }}
- --cpu-pods-avoid={{ include "gpuloom.labelPairs" $labels }}
{{- with $scheduler.cpuOnlyPods.namespaces }}
- --cpu-pods-namespaces={{ join "," . }}
{{- end }}
{{- end }}
{{- with $scheduler.nodeLabelSelector }}
{{- include "gpuloom.checkSelectors" $ }}
- --node-label-selector={{ include "gpuloom.labelPairs" . }}
{{- end }}
{{- if $scheduler.leaderElect }}
- --leader-elect=true
- --leader-elect-resource-name={{ .Values.schedulerName }}
- --leader-elect-resource-namespace={{ .Release.Namespace }}
- --rival-lease-namespaces={{ join "," $scheduler.rivals.namespaces }}
- --rival-lease-names={{ include "gpuloom.rivalLeases" . | fromJsonArray | join "," }}
{{- end }}
{{- end -}}

{{/* By which leases other schedulers of cards are known, as a JSON list: HAMi's, unless the values say, be it none. */}}
{{- define "gpuloom.rivalLeases" -}}
{{- $names := .Values.scheduler.rivals.leaseNames -}}
{{ ternary (list "hami-scheduler") $names (kindIs "invalid" $names) | toJson }}
{{- end -}}

{{/* Whether the pages ask monitors, empty if not. */}}
{{- define "gpuloom.asksMonitors" -}}
{{- $dashboard := .Values.scheduler.dashboard -}}
{{- $monitors := and .Values.devicePlugin.enabled .Values.devicePlugin.monitor.enabled -}}
{{- if and $dashboard.enabled $monitors (ne (include "gpuloom.seconds" $dashboard.monitorInterval) "0") }}true{{ end -}}
{{- end -}}

{{/* The names by which callers reach the scheduler, with commas. */}}
{{- define "gpuloom.tlsHosts" -}}
{{- $service := printf "%s.%s.svc" (include "gpuloom.scheduler" .) .Release.Namespace -}}
{{- $hosts := list $service (printf "%s.cluster.local" $service) -}}
{{- if .Values.scheduler.dashboard.enabled -}}
{{- $pages := printf "%s.%s.svc" (include "gpuloom.web" .) .Release.Namespace -}}
{{- $hosts = concat $hosts (list $pages (printf "%s.cluster.local" $pages)) -}}
{{- end -}}
{{- with .Values.scheduler.admissionWebhook.customURL -}}
{{- if .enabled }}{{ $hosts = append $hosts .host }}{{ end -}}
{{- end -}}
{{ join "," $hosts }}
{{- end -}}

{{/* The ConfigMap with the pods to be expected, empty where they are learned. */}}
{{- define "gpuloom.workload" -}}
{{- with .Values.scheduler.workload -}}
{{- if and .pods .configMap -}}
{{- fail (printf "scheduler.workload has pods and configMap %s: give one of them" .configMap) -}}
{{- end -}}
{{- range $at, $one := .pods -}}
{{- if and $one.cards (not $one.vendor) -}}
{{- fail (printf "scheduler.workload.pods, entry %d, asks for %s cards of no vendor: name it, such as NVIDIA, or * for any" (add1 $at) (toJson $one.cards)) -}}
{{- else if and $one.vendor (not $one.cards) -}}
{{- fail (printf "scheduler.workload.pods, entry %d, names vendor %s but no cards: give their number, or leave the vendor out" (add1 $at) $one.vendor) -}}
{{- end -}}
{{- end -}}
{{- if .pods }}{{ include "gpuloom.scheduler" $ }}-workload{{ else }}{{ .configMap }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The key of that ConfigMap. */}}
{{- define "gpuloom.workloadKey" -}}
{{- if include "gpuloom.workload" . }}{{ .Values.scheduler.workload.key }}{{ end -}}
{{- end -}}

{{/* Where the scheduler looks and where the device plugin runs must be able to be the same nodes: whoever comes from HAMi
     and changes its label there has often selected it here. */}}
{{- define "gpuloom.checkSelectors" -}}
{{- $plugin := .Values.devicePlugin -}}
{{- range $key, $value := .Values.scheduler.nodeLabelSelector -}}
{{- $other := get (default dict $plugin.nvidiaNodeSelector) $key -}}
{{- if and $plugin.enabled $other (ne $other $value) -}}
{{- fail (printf "scheduler.nodeLabelSelector is %s=%s, but devicePlugin.nvidiaNodeSelector %s=%s: the scheduler would look at no node whose cards the device plugin offers; leave %s out of the first (--reset-then-reuse-values --set scheduler.nodeLabelSelector=null takes all of it away)" $key $value $key $other $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels as a flag takes them, k=v,k2=v2. */}}
{{- define "gpuloom.labelPairs" -}}
{{- $pairs := list -}}
{{- range $key, $value := . }}{{ $pairs = append $pairs (printf "%s=%s" $key $value) }}{{ end -}}
{{ join "," $pairs }}
{{- end -}}

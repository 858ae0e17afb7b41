{{/* Numbers, durations and ports with which a process would not start or not be reached: each check writes nothing. */}}

{{/* The seconds of a duration such as 1h5m or 300ms. */}}
{{- define "gpuloom.seconds" -}}
{{- $units := dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-z]+" (default "" .) -1 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (get $units $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{- define "gpuloom.checkResync" -}}
{{- with .Values.devicePlugin.monitor.resyncInterval -}}
{{- if lt (include "gpuloom.seconds" . | float64) 10.0 -}}
{{- fail (printf "devicePlugin.monitor.resyncInterval is %s: give 10s or more, because a new pod's directory is there before its pod is known, and the monitor does not start with less" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* kube-scheduler must wait longer than a bind, by the second that gpuloom doctor wants too. */}}
{{- define "gpuloom.checkWaits" -}}
{{- $http := .Values.scheduler.extenderHTTPTimeout -}}
{{- $lock := default "28s" .Values.scheduler.nodeLockRetryTimeout -}}
{{- $seconds := include "gpuloom.seconds" $lock | float64 -}}
{{- $least := addf $seconds 1.0 | ceil -}}
{{- if and $seconds (lt (float64 $http) $least) -}}
{{- fail (printf "scheduler.extenderHTTPTimeout is %s seconds, but a bind may wait %s for its node's lock (scheduler.nodeLockRetryTimeout): kube-scheduler would give it up before it is answered; set extenderHTTPTimeout to %d or more, or nodeLockRetryTimeout to less" (toJson $http) $lock (int64 $least)) -}}
{{- end -}}
{{- end -}}

{{/* The metrics' port is one of several in the scheduler's pod. */}}
{{- define "gpuloom.checkMetricsAddress" -}}
{{- $address := .Values.scheduler.metricsBindAddress -}}
{{- with include "gpuloom.metricsPort" . -}}
{{- if or (lt (float64 .) 1.0) (gt (float64 .) 65535.0) -}}
{{- fail (printf "scheduler.metricsBindAddress is %s: give a port of 1 to 65535, such as :9395" $address) -}}
{{- end -}}
{{- $taken := dict "9443" "the webhook" "9398" "kube-scheduler's calls" "10259" "kube-scheduler" -}}
{{- if $.Values.scheduler.dashboard.enabled }}{{ $_ := set $taken "9396" "the dashboard" }}{{ end -}}
{{- with get $taken (int . | toString) -}}
{{- fail (printf "scheduler.metricsBindAddress is %s, but in the scheduler's pod %s is the port of %s: give another, such as :9395" $address (include "gpuloom.metricsPort" $) .) -}}
{{- end -}}
{{- end -}}
{{- $prometheus := .Values.prometheus -}}
{{- if and (or $prometheus.enabled $prometheus.rules.enabled) (regexMatch "^(127[.]|localhost:|\\[::1\\])" (default "" $address)) -}}
{{- fail (printf "scheduler.metricsBindAddress is %s, where Prometheus cannot reach it: leave the host out, or set prometheus.enabled and prometheus.rules.enabled to false" $address) -}}
{{- end -}}
{{- end -}}

{{/* A Service has a port once, and so has a node. */}}
{{- define "gpuloom.checkServicePorts" -}}
{{- $scheduler := .Values.scheduler.service -}}
{{- $monitor := .Values.devicePlugin.service -}}
{{- $metrics := include "gpuloom.metricsPort" . -}}
{{- $service := list (list "scheduler.service.httpPort" $scheduler.httpPort) -}}
{{- $nodes := list -}}
{{- if eq $scheduler.type "NodePort" }}{{ $nodes = append $nodes (list "scheduler.service.schedulerPort" $scheduler.schedulerPort) }}{{ end -}}
{{- if $metrics -}}
{{- $own := list "scheduler.service.monitorPort" $scheduler.monitorPort -}}
{{- $service = append $service $own -}}
{{- if eq $scheduler.type "NodePort" }}{{ $nodes = append $nodes $own }}{{ end -}}
{{- end -}}
{{- if and .Values.devicePlugin.enabled .Values.devicePlugin.monitor.enabled (eq $monitor.type "NodePort") -}}
{{- $nodes = append $nodes (list "devicePlugin.service.httpPort" $monitor.httpPort) -}}
{{- end -}}
{{- range $where, $ports := dict "a Service has a port once" $service "a node has a port for one Service" $nodes -}}
{{- $seen := dict -}}
{{- range $ports -}}
{{- $port := index . 1 | toJson -}}
{{- with get $seen $port -}}
{{- fail (printf "%s and %s are both %s, but %s: change one of them" . (index $ports (len $seen) | first) $port $where) -}}
{{- end -}}
{{- $_ := set $seen $port (first .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A budget must let one replica go: otherwise none of their nodes can be drained. */}}
{{- define "gpuloom.checkBudget" -}}
{{- $replicas := include "gpuloom.replicas" . | float64 -}}
{{- with .Values.scheduler.podDisruptionBudget.minAvailable -}}
{{- $least := float64 (toJson . | trimAll "\"%") -}}
{{- if kindIs "string" . }}{{ $least = divf (mulf $least $replicas) 100.0 | ceil }}{{ end -}}
{{- if ge $least $replicas -}}
{{- fail (printf "scheduler.podDisruptionBudget.minAvailable is %s of scheduler.replicas=%s: no node with a scheduler could be drained; give less, or more replicas" (include "gpuloom.text" .) (include "gpuloom.replicas" $)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Instances are shown by their UUIDs alone: the device plugin does not start with device files beside them. */}}
{{- define "gpuloom.checkDeviceFiles" -}}
{{- $plugin := .Values.devicePlugin -}}
{{- if and (include "gpuloom.usesMig" .) (eq (include "gpuloom.truth" $plugin.passDeviceSpecsEnabled) "true") -}}
{{- $other := ternary "divideCards=true" (printf "migStrategy=%s" (include "gpuloom.migStrategy" .)) $plugin.divideCards -}}
{{- fail (printf "devicePlugin.passDeviceSpecsEnabled is true beside devicePlugin.%s, but MIG instances are shown by their UUIDs, without device files: set one of the two to its default" $other) -}}
{{- end -}}
{{- end -}}

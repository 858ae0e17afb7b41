{{/* The kubelet's folder of device plugins, without a slash behind it. */}}
{{- define "gpuloom.pluginPath" -}}{{ clean .Values.devicePlugin.pluginPath }}{{- end -}}

{{/* Where the kubelet's sockets of pod resources are: beside its folder of device plugins. */}}
{{- define "gpuloom.podResources" -}}{{ include "gpuloom.pluginPath" . | dir }}/pod-resources{{- end -}}

{{/* HAMi-core's folder on a node: one folder under one path, on the host and in every container. */}}
{{- define "gpuloom.hookFolder" -}}
{{- $folder := printf "%s/vgpu" (trimSuffix "/" .Values.global.gpuHookPath) -}}
{{- if ne .Values.devicePlugin.libPath $folder -}}
{{- fail (printf "devicePlugin.libPath is %s, but must be global.gpuHookPath with /vgpu behind it, %s: both name the same folder" .Values.devicePlugin.libPath $folder) -}}
{{- end -}}
{{ $folder }}
{{- end -}}

{{- define "gpuloom.migStrategy" -}}{{ default "none" .Values.devicePlugin.migStrategy }}{{- end -}}

{{/* Whether the node's processes work with MIG instances, for which the driver wants more rights. */}}
{{- define "gpuloom.usesMig" -}}
{{- if or .Values.devicePlugin.divideCards (ne (include "gpuloom.migStrategy" .) "none") }}true{{ end -}}
{{- end -}}

{{/* What every container of a pod on a node is kept from, a privileged one excepted. */}}
{{- define "gpuloom.podSecurity" -}}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "gpuloom.nodeSecurity" -}}
{{- $root := index . 0 -}}
{{- $own := default dict (index . 1) -}}
{{- if include "gpuloom.usesMig" $root -}}
privileged: true
readOnlyRootFilesystem: true
{{- else if $own.privileged -}}
{{- /* Whoever is privileged may gain rights: the API server takes no other word. */ -}}
{{ toYaml (omit $own "allowPrivilegeEscalation") }}
{{- else -}}
{{ toYaml $own }}
{{- end -}}
{{- end -}}

{{/* The node configuration, if a node can read it: it would log and ignore what it cannot. Keys are of any letter case and
     null is no value, as in Go. */}}
{{- define "gpuloom.nodeConfiguration" -}}
{{- $text := .Values.devicePlugin.nodeConfiguration.config -}}
{{- $name := "devicePlugin.nodeConfiguration.config" -}}
{{- $kinds := dict
  "name" "string" "operatingmode" "string" "migstrategy" "string" "libcudaloglevel" "string"
  "devicesplitcount" "float64" "preconfigureddevicememory" "float64" "devicememoryscaling" "float64" "devicecorescaling" "float64"
  "enablenumatopology" "bool" "enablegetpreferredallocation" "bool" "filterdevices" "map"
-}}
{{- $words := dict "string" "text" "float64" "a number" "bool" "true or false" "map" "an object" "slice" "a list" -}}
{{- $shown := dict "operatingmode" (list "" "hami-core" "mig") "migstrategy" (list "" "none" "single" "mixed") "libcudaloglevel" (list "" "0" "1" "3" "4") -}}
{{- if not (hasPrefix "{" (trim $text)) -}}
{{- fail (printf "%s must be {\"nodeconfig\": [...]} with a list of nodes, but is %s" $name (trunc 100 $text)) -}}
{{- end -}}
{{- $config := fromJson $text -}}
{{- with $config.Error }}{{ fail (printf "%s is not JSON: %s" $name .) }}{{ end -}}
{{- range $key, $entries := $config -}}
{{- if ne (lower $key) "nodeconfig" -}}
{{- fail (printf "%s has the unknown key %s, known is nodeconfig" $name $key) -}}
{{- end -}}
{{- if not (kindIs "slice" $entries) -}}
{{- fail (printf "%s must be {\"nodeconfig\": [...]} with a list of nodes, but has %s" $name (dict $key $entries | toJson | trunc 100)) -}}
{{- end -}}
{{- range $entry := $entries -}}
{{- if not (kindIs "map" $entry) }}{{ fail (printf "%s has no object for a node: %s" $name (toJson $entry | trunc 100)) }}{{ end -}}
{{- $places := list (list "" $kinds $entry) -}}
{{- $named := "" -}}
{{- range $key, $value := $entry }}{{ if eq (lower $key) "name" }}{{ $named = $value }}{{ end }}{{ end -}}
{{- if not $named }}{{ fail (printf "%s has an entry that names no node: %s" $name (toJson $entry | trunc 100)) }}{{ end -}}
{{- range $key, $filter := $entry -}}
{{- if and (eq (lower $key) "filterdevices") (kindIs "map" $filter) -}}
{{- $places = append $places (list "filterdevices." (dict "uuid" "slice" "index" "slice") $filter) -}}
{{- end -}}
{{- end -}}
{{- range $place := $places -}}
{{- range $key, $value := index $place 2 -}}
{{- $wanted := get (index $place 1) (lower $key) -}}
{{- if not $wanted -}}
{{- fail (printf "%s has the unknown key %s%s, known are %s" $name (index $place 0) $key (keys (index $place 1) | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if not (kindIs "invalid" $value | or (kindIs $wanted $value)) -}}
{{- fail (printf "%s: %s%s must be %s, not %s" $name (index $place 0) $key (get $words $wanted) (toJson $value | trunc 100)) -}}
{{- end -}}
{{- $allowed := get $shown (lower $key) -}}
{{- if and $allowed (kindIs "string" $value) (not (has $value $allowed)) -}}
{{- fail (printf "%s: %s of node %s must be %s, not %s" $name $key $named (rest $allowed | join ", ") $value) -}}
{{- end -}}
{{- if and (has (lower $key) (list "devicesplitcount" "preconfigureddevicememory")) (kindIs "float64" $value) (or (lt $value 0.0) (ne (floor $value) $value)) -}}
{{- fail (printf "%s: %s of node %s must be a whole number of 0 or more, not %s" $name $key $named (toJson $value)) -}}
{{- end -}}
{{- if and (hasSuffix "scaling" (lower $key)) (kindIs "float64" $value) (lt $value 0.0) -}}
{{- fail (printf "%s: %s of node %s must be 0 or more, not %s" $name $key $named (toJson $value)) -}}
{{- end -}}
{{- if and (eq (lower $key) "devicesplitcount") (kindIs "float64" $value) (gt $value 4000.0) -}}
{{- fail (printf "%s: %s of node %s must be at most 4000, not %s" $name $key $named (toJson $value)) -}}
{{- end -}}
{{- if kindIs "slice" $value -}}
{{- $kind := eq (lower $key) "index" | ternary "float64" "string" -}}
{{- range $value -}}
{{- if not (kindIs $kind .) }}{{ fail (printf "%s: %s%s of node %s must be a list of %s, but has %s" $name (index $place 0) $key $named (eq $kind "string" | ternary "text" "numbers") (toJson . | trunc 100)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ $text }}
{{- end -}}

{{/* The flag that simulates cards. */}}
{{- define "gpuloom.cardsArgument" -}}
{{- with .Values.devicePlugin.simulatedCards -}}
- --cards={{ if contains "\n" . }}/cards/cards.toml{{ else }}{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "gpuloom.cardsMount" -}}
{{- if contains "\n" .Values.devicePlugin.simulatedCards -}}
- name: cards
  mountPath: /cards
  readOnly: true
{{- end -}}
{{- end -}}

{{- define "gpuloom.cardsVolume" -}}
{{- if contains "\n" .Values.devicePlugin.simulatedCards -}}
- name: cards
  configMap:
    name: {{ include "gpuloom.devicePlugin" . }}-cards
{{- end -}}
{{- end -}}

{{/* Environment of both processes of a node: called with a list of root and further variables, by name or as in pods. */}}
{{- define "gpuloom.nodeEnvironment" -}}
{{- $root := index . 0 -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
- name: NVIDIA_VISIBLE_DEVICES
  value: all
- name: NVIDIA_DRIVER_CAPABILITIES
  value: utility
{{- if include "gpuloom.usesMig" $root }}
- name: NVIDIA_MIG_MONITOR_DEVICES
  value: all
- name: NVIDIA_MIG_CONFIG_DEVICES
  value: all
{{- end }}
{{- $more := index . 1 -}}
{{- if kindIs "slice" $more }}
{{- range $more }}
- {{ toJson . }}
{{- end }}
{{- else }}
{{- range $name, $value := $more }}
- name: {{ quote $name }}
  value: {{ include "gpuloom.text" $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* On which nodes the processes of a node run. */}}
{{- define "gpuloom.nodePlacement" -}}
{{- with .Values.devicePlugin.runtimeClassName }}
runtimeClassName: {{ quote . }}
{{- end }}
{{- with .Values.devicePlugin.priorityClassName }}
priorityClassName: {{ quote . }}
{{- end }}
{{- with .Values.devicePlugin.nvidiaNodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.devicePlugin.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The monitor's image is the device plugin's with what it has of its own; a digest is that of one repository and tag. */}}
{{- define "gpuloom.monitorImage" -}}
{{- $own := .Values.devicePlugin.monitor.image -}}
{{- $image := deepCopy .Values.devicePlugin.image -}}
{{- if or $own.repository $own.tag }}{{ $_ := unset $image "digest" }}{{ end -}}
{{- range $key, $value := $own }}{{ if $value }}{{ $_ := set $image $key $value }}{{ end }}{{ end -}}
{{- include "gpuloom.image" (list . $image) -}}
{{- end -}}

{{/* The library's image is the device plugin's unless it names a repository. */}}
{{- define "gpuloom.libraryImage" -}}
{{- $plugin := .Values.devicePlugin -}}
{{- include "gpuloom.image" (list . (ternary $plugin.library.image $plugin.image (ne $plugin.library.image.repository ""))) -}}
{{- end -}}

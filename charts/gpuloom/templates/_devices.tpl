{{/* The value below devices that speaks of a section: HAMi's names differ for two. */}}
{{- define "gpuloom.device" -}}{{ get (dict "vnpus" "ascend" "iluvatars" "iluvatar") . | default . }}{{- end -}}

{{/* Names of resources and switches in values, by section and key. */}}
{{- define "gpuloom.deviceValues" -}}
cambricon:
  resourceCountName: {{ .Values.mluResourceName | quote }}
  resourceMemoryName: {{ .Values.mluResourceMem | quote }}
  resourceCoreName: {{ .Values.mluResourceCores | quote }}
hygon:
  resourceCountName: {{ .Values.dcuResourceName | quote }}
  resourceMemoryName: {{ .Values.dcuResourceMem | quote }}
  resourceCoreName: {{ .Values.dcuResourceCores | quote }}
metax:
  resourceVCountName: {{ .Values.metaxResourceName | quote }}
  resourceVMemoryName: {{ .Values.metaxResourceMem | quote }}
  resourceVCoreName: {{ .Values.metaxResourceCore | quote }}
  sgpuTopologyAware: {{ include "gpuloom.truth" .Values.metaxsGPUTopologyAware }}
enflame:
  resourceNameDRSGCU: {{ .Values.enflameResourceNameDRSGCU | quote }}
  resourceNameGCUMemory: {{ .Values.enflameResourceNameGCUMemory | quote }}
  resourceNameGCUCore: {{ .Values.enflameResourceNameGCUCore | quote }}
kunlun:
  resourceCountName: {{ .Values.kunlunResourceName | quote }}
  resourceVCountName: {{ .Values.kunlunResourceVCountName | quote }}
  resourceVMemoryName: {{ .Values.kunlunResourceVMemoryName | quote }}
vastai:
  resourceCountName: {{ .Values.vastaiResourceName | quote }}
biren:
  resourceCountName: {{ .Values.birenResourceName | quote }}
vnpus:
  hamiVnpuCore: {{ .Values.devices.ascend.hamiVnpuCore }}
{{- end -}}

{{- define "gpuloom.nvidia" -}}
{{- $nvidia := .Values.devices.nvidia -}}
{{- $plugin := .Values.devicePlugin -}}
resourceCountName: {{ .Values.resourceName | quote }}
resourceMemoryName: {{ .Values.resourceMem | quote }}
resourceMemoryPercentageName: {{ .Values.resourceMemPercentage | quote }}
resourceCoreName: {{ .Values.resourceCores | quote }}
resourcePriorityName: {{ .Values.resourcePriority | quote }}
overwriteEnv: {{ include "gpuloom.truth" .Values.scheduler.overwriteEnv }}
defaultMemory: {{ toJson $nvidia.defaultMemory }}
defaultCores: {{ toJson $nvidia.defaultCores }}
defaultGPUNum: {{ toJson $nvidia.defaultGPUNum }}
memoryFactor: {{ toJson $nvidia.memoryFactor }}
gpuCorePolicy: {{ $nvidia.gpuCorePolicy | quote }}
libCudaLogLevel: {{ $nvidia.libCudaLogLevel | quote }}
runtimeClassName: {{ $plugin.runtimeClassName | quote }}
deviceSplitCount: {{ toJson $plugin.deviceSplitCount }}
deviceMemoryScaling: {{ toJson $plugin.deviceMemoryScaling }}
deviceCoreScaling: {{ toJson $plugin.deviceCoreScaling }}
preConfiguredDeviceMemory: {{ int64 $plugin.preConfiguredDeviceMemory }}
disableCoreLimit: {{ include "gpuloom.truth" $plugin.disablecorelimit }}
enableNumaTopology: {{ $plugin.enableNumaTopology }}
{{- with $nvidia.migProfileAllowlist }}
migProfileAllowlist:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* device-config.yaml, the one file about devices that the scheduler and the device plugins read. */}}
{{- define "gpuloom.deviceConfig" -}}
{{- $content := (index .Values "device-config").content -}}
{{- if $content -}}
{{ $content }}
{{- else -}}
nvidia:
  {{- include "gpuloom.nvidia" . | nindent 2 }}
{{- $values := include "gpuloom.deviceValues" . | fromYaml -}}
{{- range $section, $default := (.Files.Get "files/devices.yaml" | fromYaml).sections }}
{{- if (get $.Values.devices (include "gpuloom.device" $section)).enabled }}
{{- if kindIs "map" $default }}
{{- $merged := deepCopy $default }}
{{- range $key, $value := get $values $section | default dict }}{{ $_ := set $merged $key $value }}{{ end }}
{{ toYaml (dict $section $merged) }}
{{- else }}
{{ toYaml (dict $section $default) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* The flags of the scheduler that switch sections on, one a line. */}}
{{- define "gpuloom.deviceFlags" -}}
{{- range $section, $flag := (.Files.Get "files/devices.yaml" | fromYaml).flags }}
- --{{ $flag }}={{ (get $.Values.devices (include "gpuloom.device" $section)).enabled }}
{{- end }}
{{- end -}}

{{/* The resources that kube-scheduler leaves to the extender, as a JSON list: whatever the device configuration names
under the keys that files/devices.yaml knows, and what a user's own vendors name. */}}
{{- define "gpuloom.managedResources" -}}
{{- $config := include "gpuloom.deviceConfig" . | fromYaml -}}
{{- with $config.Error }}{{ fail (printf "device-config.content is not YAML: %s" .) }}{{ end -}}
{{- $known := .Files.Get "files/devices.yaml" | fromYaml -}}
{{- $names := list -}}
{{- range $section, $keys := $known.managed -}}
{{- $entries := get $config $section | default list -}}
{{- if kindIs "map" $entries -}}
{{- $under := get $known.under $section -}}
{{- $entries = ternary (get $entries $under | default list) (list $entries) (ne $under "") -}}
{{- end -}}
{{- $isOn := or (not (hasKey $known.flags $section)) (get $.Values.devices (include "gpuloom.device" $section)).enabled -}}
{{- range $entry := ternary $entries list $isOn -}}
{{- range $key := $keys -}}
{{- with get $entry $key }}{{ $names = append $names . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names = concat $names (default list .Values.vendors.managedResources) -}}
{{- if not $names -}}
{{- fail "the device configuration names no resource: pods could not ask for cards (resourceName, or device-config.content)" -}}
{{- end -}}
{{- if and .Values.devicePlugin.enabled (not (get (get $config "nvidia" | default dict) "resourceCountName")) -}}
{{- $where := ternary "device-config.content has no nvidia.resourceCountName" "resourceName is empty" (ne (index .Values "device-config").content "") -}}
{{- fail (printf "%s: nobody can ask for NVIDIA's cards, but the device plugin would offer them as nvidia.com/gpu: name the resource, or set devicePlugin.enabled=false" $where) -}}
{{- end -}}
{{- $names | uniq | toJson -}}
{{- end -}}

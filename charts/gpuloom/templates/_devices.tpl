{{/* device-config.yaml, the one file about devices that the scheduler and the device plugins read. */}}
{{- define "gpuloom.deviceConfig" -}}
{{- $content := (index .Values "device-config").content -}}
{{- if $content -}}
{{ $content }}
{{- else -}}
{{- $nvidia := .Values.devices.nvidia -}}
{{- $plugin := .Values.devicePlugin -}}
nvidia:
  resourceCountName: {{ .Values.resourceName }}
  resourceMemoryName: {{ .Values.resourceMem }}
  resourceMemoryPercentageName: {{ .Values.resourceMemPercentage }}
  resourceCoreName: {{ .Values.resourceCores }}
  resourcePriorityName: {{ .Values.resourcePriority }}
  overwriteEnv: {{ include "gpuloom.truth" .Values.scheduler.overwriteEnv }}
  defaultMemory: {{ $nvidia.defaultMemory }}
  defaultCores: {{ $nvidia.defaultCores }}
  defaultGPUNum: {{ $nvidia.defaultGPUNum }}
  memoryFactor: {{ $nvidia.memoryFactor }}
  gpuCorePolicy: {{ $nvidia.gpuCorePolicy }}
  libCudaLogLevel: {{ $nvidia.libCudaLogLevel | quote }}
  runtimeClassName: {{ $plugin.runtimeClassName | quote }}
  deviceSplitCount: {{ $plugin.deviceSplitCount }}
  deviceMemoryScaling: {{ $plugin.deviceMemoryScaling }}
  deviceCoreScaling: {{ $plugin.deviceCoreScaling }}
  preConfiguredDeviceMemory: {{ int64 $plugin.preConfiguredDeviceMemory }}
  disableCoreLimit: {{ include "gpuloom.truth" $plugin.disablecorelimit }}
  enableNumaTopology: {{ $plugin.enableNumaTopology }}
  {{- with $nvidia.migProfileAllowlist }}
  migProfileAllowlist:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* The resources that kube-scheduler leaves to the extender, as a JSON list in the order of vendors and keys: whatever
the device configuration names under the keys of files/managed-resources.yaml. */}}
{{- define "gpuloom.managedResources" -}}
{{- $config := include "gpuloom.deviceConfig" . | fromYaml -}}
{{- with $config.Error }}{{ fail (printf "device-config.content is not YAML: %s" .) }}{{ end -}}
{{- $names := list -}}
{{- $keysOf := .Files.Get "files/managed-resources.yaml" | fromYaml -}}
{{- range $section := keys $keysOf | sortAlpha -}}
{{- range $key := index $keysOf $section -}}
{{- with dig $section $key "" $config -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $names -}}
{{- fail "the device configuration names no resource: pods could not ask for cards (resourceName, or device-config.content)" -}}
{{- end -}}
{{- $names | uniq | toJson -}}
{{- end -}}

{{/* larder.checks refuses invalid combinations of values. */}}
{{- define "larder.checks" -}}
{{- if not (or .Values.node.enabled .Values.mirror.enabled .Values.snapshots.enabled) }}
{{- fail "nothing would be installed: set node.enabled, mirror.enabled or snapshots.enabled" }}
{{- end }}
{{- $core := list "configmaps" "endpoints" "events" "limitranges" "namespaces" "nodes" "persistentvolumeclaims" }}
{{- $core = concat $core (list "persistentvolumes" "pods" "podtemplates" "replicationcontrollers" "resourcequotas") }}
{{- $core = concat $core (list "secrets" "serviceaccounts" "services") }}
{{- range .Values.resources }}
{{- if not (or (contains "." .name) (has .name $core)) }}
{{- fail (printf "%s: the core group has no such resource: add its group, as in deployments.apps" .name) }}
{{- end }}
{{- if and (eq .name "secrets") (not $.Values.keySecret) (or $.Values.node.enabled $.Values.mirror.enabled) }}
{{- fail "resources has secrets, which are stored only if a key seals them: set keySecret" }}
{{- end }}
{{- end }}
{{- $names := list }}
{{- range .Values.resources }}
{{- $names = append $names .name }}
{{- if and $.Values.snapshots.enabled (gt (len .) 1) }}
{{- fail (printf "%s: the CronJob saves whole resources: use mirror.snapshotTo for a part of one" .name) }}
{{- end }}
{{- end }}
{{- if and .Values.snapshots.enabled (not .Values.repository.recipients) (not (without $names "secrets")) }}
{{- fail "resources has secrets alone, which are in snapshots only if they are encrypted: set repository.recipients" }}
{{- end }}
{{- if and .Values.snapshots.enabled (hasPrefix "/work/" .Values.snapshots.to) }}
{{- fail "snapshots.to is below /work/, where a job makes its snapshot: take another directory, such as /snapshots/" }}
{{- end }}
{{- if and .Values.node.enabled (hasPrefix "http://" (lower .Values.node.seed.url)) (not .Values.node.seed.key) }}
{{- fail "node.seed.url is http, where others can replace a snapshot that is not signed: set node.seed.key, or use https" }}
{{- end }}
{{- if and .Values.podMonitor.enabled .Values.node.enabled (not .Values.node.serve) .Values.networkPolicy.enabled }}
{{- if not .Values.networkPolicy.monitoring }}
{{- fail "podMonitor is enabled, and nobody may connect to the nodes' metrics: set networkPolicy.monitoring" }}
{{- end }}
{{- end }}
{{- end }}

{{/* larder.labels are the labels that select the pods of a workload: list ROOT COMPONENT. */}}
{{- define "larder.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: larder
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* larder.group is the group of a name such as deployments.apps. */}}
{{- define "larder.group" -}}
{{- regexFind "[.].*" . | trimPrefix "." }}
{{- end }}

{{/* larder.rules are the rules of RBAC for entries of resources, a rule for each group: list ENTRIES VERBS. */}}
{{- define "larder.rules" -}}
{{- $groups := dict }}
{{- range index . 0 }}
{{- $group := include "larder.group" .name }}
{{- $_ := set $groups $group (append (get $groups $group | default list) (regexFind "^[^.]+" .name)) }}
{{- end }}
{{- $verbs := index . 1 }}
{{- range $group, $names := $groups }}
- apiGroups: [{{ $group | quote }}]
  resources: [{{ $names | uniq | sortAlpha | join ", " }}]
  verbs: [{{ join ", " $verbs }}]
{{- end }}
{{- end }}

{{/* larder.custom are the entries of custom resources: their groups are not built in. */}}
{{- define "larder.custom" -}}
{{- $own := list "admissionregistration" "apiregistration" "authentication" "authorization" "certificates" }}
{{- $own = concat $own (list "coordination" "discovery" "events" "flowcontrol.apiserver" "internal.apiserver") }}
{{- $own = concat $own (list "networking" "node" "rbac.authorization" "resource" "scheduling" "storage") }}
{{- $own = append $own "storagemigration" }}
{{- range . }}
{{- $group := include "larder.group" .name }}
{{- if and (contains "." $group) (not (has (trimSuffix ".k8s.io" $group) $own)) }}
- {{ .name }}
{{- end }}
{{- end }}
{{- end }}

{{/* larder.account is a workload's service account with its rights to resources: list ROOT COMPONENT ENTRIES VERBS. */}}
{{- define "larder.account" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- $name := printf "%s-%s" $root.Release.Name $component }}
{{- $verbs := index . 3 }}
{{- $everywhere := list }}
{{- $namespaces := dict }}
{{- range $entry := index . 2 }}
{{- if hasKey $entry "namespaces" }}
{{- range $entry.namespaces }}
{{- $_ := set $namespaces . (append (get $namespaces . | default list) $entry) }}
{{- end }}
{{- else }}
{{- $everywhere = append $everywhere $entry }}
{{- end }}
{{- end }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "larder.labels" (list $root $component) | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels: {{- include "larder.labels" (list $root $component) | nindent 4 }}
rules:
{{- with $everywhere }}
# The mirrored resources.
{{- include "larder.rules" (list . $verbs) }}
{{- end }}
# The UID of kube-system identifies the cluster.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
{{- with include "larder.custom" (index . 2) | trim }}
# For the columns of custom resources. Without this right they have only NAME and AGE.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames:
  {{- . | nindent 2 }}
  verbs: [get]
{{- end }}
{{- if and (eq $component "node") $root.Values.node.seed.caSecret }}
# For snapshots from the mirror, which checks this right with the API server.
- nonResourceURLs: [/snapshot/*]
  verbs: [get]
{{- end }}
---
{{ include "larder.binding" (list $root $component "ClusterRole" $name $name "") }}
{{- range $namespace, $entries := $namespaces }}
---
# The mirrored resources of this namespace.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels: {{- include "larder.labels" (list $root $component) | nindent 4 }}
rules:
{{- include "larder.rules" (list $entries $verbs) }}
---
{{ include "larder.binding" (list $root $component "Role" $name $name $namespace) }}
{{- end }}
{{- end }}

{{/* larder.binding binds a role to a component's service account: list ROOT COMPONENT KIND ROLE NAME NAMESPACE. */}}
{{- define "larder.binding" -}}
{{- $root := index . 0 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (ne (index . 5) "") }}
metadata:
  name: {{ index . 4 }}
  {{- with index . 5 }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "larder.labels" (list $root (index . 1)) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 2 }}
  name: {{ index . 3 }}
subjects:
- kind: ServiceAccount
  name: {{ $root.Release.Name }}-{{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
{{- end }}

{{/* larder.reviews allows a workload TokenReviews and SubjectAccessReviews: list ROOT COMPONENT. */}}
{{- define "larder.reviews" -}}
{{- $root := index . 0 -}}
{{- $name := printf "%s-%s-reviews" $root.Release.Name (index . 1) -}}
# The API server authenticates and authorizes clients: TokenReviews and SubjectAccessReviews.
{{ include "larder.binding" (list $root (index . 1) "ClusterRole" "system:auth-delegator" $name "") }}
{{- end }}

{{/* larder.securityContext is the security context of every container but the one that changes a directory's owner. */}}
{{- define "larder.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* larder.podSecurityContext is the security context of every pod; Pod Security "restricted" allows it. */}}
{{- define "larder.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
# Do not change the group of every file of a large volume at each start.
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* larder.probes are the health probes. A pod is ready when every resource has a state, from the store or a first list. */}}
{{- define "larder.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: health}
  failureThreshold: 30
  periodSeconds: 2
livenessProbe:
  httpGet: {path: /healthz, port: health}
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: health}
  timeoutSeconds: 5
{{- end }}

{{/* larder.sync is the SyncConfig of a workload: list ROOT WORKLOAD-VALUES ENTRIES. */}}
{{- define "larder.sync" -}}
{{- $root := index . 0 }}
{{- $config := dict "apiVersion" "larder.dev/v1alpha1" "kind" "SyncConfig" "resources" (index . 2) }}
{{- $_ := set $config "store" "/var/lib/larder/cluster.db" }}
{{- $_ := set $config "listen" "0.0.0.0:9470" }}
{{- if $root.Values.keySecret }}
{{- $_ := set $config "encryption" (dict "keyEnv" "LARDER_KEY") }}
{{- end }}
{{- mergeOverwrite $config (deepCopy (index . 1).config) | toYaml }}
{{- end }}

{{/* larder.config is the data of a workload's ConfigMap: list ROOT WORKLOAD-VALUES ENTRIES. */}}
{{- define "larder.config" -}}
{{- $root := index . 0 -}}
# The kubelet probes the pod's address.
sync.yaml: |
  {{- include "larder.sync" . | nindent 2 }}
{{- with $root.Values.offlineAccess }}
# Changes apply without a restart.
offline-access.yaml: |
  {{- dict "apiVersion" "larder.dev/v1alpha1" "kind" "OfflineAccess" "rules" . | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{/* larder.credentials is the environment of containers that access a repository. */}}
{{- define "larder.credentials" -}}
{{- with .Values.repository.credentialsSecret }}
envFrom:
- secretRef: {name: {{ . }}}
{{- end }}
{{- end }}

{{/* larder.repositoryMounts and larder.repositoryVolumes are the files for containers that make snapshots. */}}
{{- define "larder.repositoryMounts" -}}
{{- if .Values.repository.signKeySecret }}
- {name: sign-key, mountPath: /etc/larder-sign, readOnly: true}
{{- end }}
{{- include "larder.credentialsMounts" . }}
{{- end }}
{{- define "larder.credentialsMounts" -}}
{{- if .Values.repository.credentialsSecret }}
# DOCKER_CONFIG: the config.json of docker login, if the Secret has it.
- {name: credentials, mountPath: /etc/larder-credentials, readOnly: true}
{{- end }}
{{- end }}
{{- define "larder.repositoryVolumes" -}}
{{- with .Values.repository.signKeySecret }}
- name: sign-key
  secret: {secretName: {{ . }}, items: [{key: sign.key, path: sign.key}]}
{{- end }}
{{- include "larder.credentialsVolumes" . }}
{{- end }}
{{- define "larder.credentialsVolumes" -}}
{{- with .Values.repository.credentialsSecret }}
- name: credentials
  secret: {secretName: {{ . }}}
{{- end }}
{{- end }}

{{/* larder.peers is `from` of a NetworkPolicy. */}}
{{- define "larder.peers" -}}
{{- with . }}
from: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* larder.clients is `from` for the served port, which also has the metrics: it includes networkPolicy.monitoring unless all may connect. */}}
{{- define "larder.clients" -}}
{{- with .Values.networkPolicy.clients }}
{{- include "larder.peers" (concat . $.Values.networkPolicy.monitoring) }}
{{- end }}
{{- end }}

// Package config reads the configuration file of larder sync.
//
// Call [Load], or [Parse] with the file's content. The file is YAML (or JSON, which is YAML), of one document:
//
//	apiVersion: larder.dev/v1alpha1
//	kind: SyncConfig
//	store: /var/lib/larder/cluster.db   # required here or as --store; relative to the file's directory
//	maxSize: 512Mi                      # maximum size of the store, at least 5Mi; default no limit
//	resources:                          # required
//	- name: pods                        # as kubectl understands it, or a category such as all; required
//	  namespaces: [web, shop]           # default all
//	  labelSelector: app in (web, db)
//	  fieldSelector: spec.nodeName=$(NODE_NAME)
//	  representation: full              # or metadata; default full
//	persistSecrets: false               # true stores secrets in the file, not encrypted
//	encryption:
//	  keyFile: key                      # relative to the file's directory; or keyEnv, the name of an environment variable
//	  resources: [secrets]              # encrypted resources, by full name (deployments.apps); default secrets
//	retention:
//	  changes: 7d                       # how long changes are kept for larder watch --since, or never; default never
//	listen: 127.0.0.1:9470              # /healthz, /readyz and /metrics; default off; without a host it is loopback
//	ready: disk                         # or resumed: when /readyz answers 200; default disk
//	schemas: true                       # false stores no OpenAPI schemas, about 6 MB over the network for a whole cluster
//	kubeconfig: /etc/larder/kubeconfig  # default as kubectl; relative to the file's directory
//	context: edge                       # of the kubeconfig
//
// In selectors $(NAME) is replaced by an environment variable, which must be set: the pods of a DaemonSet share a file.
//
// The file is read strictly: an unknown or duplicate field, a value of a wrong type or out of range, and an invalid
// selector are errors. An error has the file, the field, the problem and the allowed values; all errors are returned at
// once. Parsing makes no requests and reads no other file: the server decides whether a resource exists.
//
// [Size], [Age] and [Address] read single values, for flags with the same meaning.
package config

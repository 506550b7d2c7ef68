// Package config reads the configuration file of larder sync.
//
// Call [Load], or [Parse] with what has been read already. The file is YAML (or JSON, which is YAML), of one document:
//
//	apiVersion: larder.dev/v1alpha1
//	kind: SyncConfig
//	store: /var/lib/larder/cluster.db   # required here or as --store; relative to the file's directory
//	maxSize: 512Mi                      # what the store may grow to, 5Mi at least; default no limit
//	resources:                          # required
//	- name: pods                        # as kubectl understands it, or a category such as all; required
//	  namespaces: [web, shop]           # default all
//	  labelSelector: app in (web, db)
//	  fieldSelector: spec.nodeName=$(NODE_NAME)
//	  representation: full              # or metadata; default full
//	persistSecrets: false               # true stores secrets in the file, not encrypted
//	encryption:
//	  keyFile: key                      # relative to the file's directory; or keyEnv, the name of an environment variable
//	  resources: [secrets]              # what is sealed of resources, by its full name (deployments.apps); default secrets
//	retention:
//	  changes: 7d                       # how long what changes is kept, for larder watch --since, or never; default never
//	listen: 127.0.0.1:9470              # /healthz, /readyz and /metrics; default off; without a host it is loopback
//	ready: disk                         # or resumed: when /readyz says yes; default disk
//	schemas: true                       # false stores no OpenAPI schemas, about 6 MB over the network for a whole cluster
//	kubeconfig: /etc/larder/kubeconfig  # default as kubectl; relative to the file's directory
//	context: edge                       # of the kubeconfig
//
// In selectors $(NAME) stands for an environment variable, which must be set: the pods of a DaemonSet share a file.
//
// It is read strictly: what is unknown, of another type, given twice, out of range or no selector is an error that says
// where (file and field), what is wrong, and what is allowed; all of them at once. Nothing is looked up and no other
// file is read: whether a resource exists the server says.
//
// [Size], [Age] and [Address] read single values, for flags that say the same.
package config

// Package e2e tests Larder against a real kube-apiserver and etcd; package
// controlplane starts them. The tests share one server and live in namespaces
// of their own; those that break more than the API server's process start
// another. `make soak` sets LARDER_SOAK for more kills and longer outages.
package e2e

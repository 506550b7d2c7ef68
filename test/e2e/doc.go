// Package e2e tests Larder against kube-apiserver and etcd, which package controlplane starts. The tests share one
// server and use separate namespaces. Tests that break more than the API server's process start their own server. `make
// soak` sets LARDER_SOAK for more kills and longer outages.
package e2e

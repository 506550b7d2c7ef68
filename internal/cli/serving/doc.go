// Package serving implements larder serve, and the parts that larder sync --serve shares with it: the flags, the port
// with its certificates, users and permissions (Listen), and the kubeconfig.
package serving

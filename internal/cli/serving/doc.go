// Package serving has larder serve, and what larder sync --serve shares with it: the flags, the port with its
// certificates, its users and their rights (Listen), and the kubeconfig.
package serving

// Package kubeconfig writes a kubeconfig for the port of package serve: [Config.Write]. For a command that needs one
// only while it runs, use [NewDirectory].
package kubeconfig

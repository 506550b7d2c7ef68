// Package kubeconfig writes kubeconfig files for the clients of package serve: see [Config.Write]. For a command that
// needs a kubeconfig only while it runs, use [NewDirectory].
package kubeconfig

// Package kubeconfig writes the file by which clients find package serve's port and get in: [Config.Write]. For a
// command that is run with one, and for no longer, use [NewDirectory].
package kubeconfig

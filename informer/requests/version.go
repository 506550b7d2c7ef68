package requests

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// versionFor is how long the version is reused. It is short, since a server is upgraded between two connects.
const versionFor = 5 * time.Second

// ServerVersion returns a function for Options.ServerVersion: the gitVersion of the server's /version, which every user
// may read by default. Informers that share the function, and connect within five seconds, make one request. client is
// any REST client of the cluster, such as clientset.CoreV1().RESTClient().
func ServerVersion(client rest.Interface) func(ctx context.Context) (string, error) {
	const path = "/version"
	return newShared(path, versionFor, func(ctx context.Context) (string, error) {
		var info version.Info
		err := getJSON(ctx, client, path, "application/json", &info)
		return info.GitVersion, err
	}).read
}

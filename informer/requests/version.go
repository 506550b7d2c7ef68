package requests

import (
	"context"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/informer/internal/shared"
)

// ServerVersion returns a function for Options.ServerVersion that reads the gitVersion of the server's /version, which
// every user may read by default. Informers that share the function and connect within five seconds share one request.
// client is any REST client of the cluster, such as clientset.CoreV1().RESTClient().
func ServerVersion(client rest.Interface) func(ctx context.Context) (string, error) {
	const path = "/version"
	return shared.New(path, identityFor, func(ctx context.Context) (string, error) {
		var info version.Info
		err := getJSON(ctx, client, path, "application/json", &info)
		return info.GitVersion, err
	}).Read
}

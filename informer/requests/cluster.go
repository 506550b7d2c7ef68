package requests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/informer/internal/shared"
)

// identityFor is how long informers share an answer about the server's identity, unless they have lost a connection.
const identityFor = 5 * time.Second

// KubeSystemUID returns a function for Options.ClusterID that reads the UID of the namespace kube-system, as metadata.
// Informers that share the function and connect within a few seconds share one request. client is any REST client of
// the cluster, such as clientset.CoreV1().RESTClient().
func KubeSystemUID(client rest.Interface) func(ctx context.Context) (string, error) {
	return ClusterID(func(ctx context.Context) (string, error) {
		var ns struct {
			Metadata struct {
				UID string `json:"uid"`
			} `json:"metadata"`
		}
		err := getJSON(ctx, client, kubeSystem,
			"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json", &ns)
		return ns.Metadata.UID, err
	})
}

const kubeSystem = "/api/v1/namespaces/kube-system"

// ClusterID returns a function for Options.ClusterID. Informers that connect within a few seconds share a call of read.
func ClusterID(read func(ctx context.Context) (string, error)) func(ctx context.Context) (string, error) {
	return shared.New(kubeSystem, identityFor, read).Read
}

func getJSON(ctx context.Context, client rest.Interface, absPath, accept string, into any) error {
	data, err := client.Get().AbsPath(absPath).SetHeader("Accept", accept).Do(ctx).Raw()
	if err != nil {
		return requestError(absPath, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the server's answer to GET %s is not what it should be: %w", absPath, err)
	}
	return nil
}

// requestError adds the request to err unless err names it already, and the server's reason if there is one.
func requestError(absPath string, err error) error {
	var sent *url.Error
	reason := apierrors.ReasonForError(err)
	switch {
	case errors.As(err, &sent):
		return err
	case reason == metav1.StatusReasonUnknown:
		return fmt.Errorf("GET %s: %w", absPath, err)
	}
	return fmt.Errorf("GET %s: %s: %w", absPath, reason, err)
}

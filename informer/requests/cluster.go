package requests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// KubeSystemUID returns a function for Options.ClusterID: the UID of the namespace kube-system, read by metadata.
// client is any REST client of the cluster, such as clientset.CoreV1().RESTClient().
func KubeSystemUID(client rest.Interface) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var ns struct {
			Metadata struct {
				UID string `json:"uid"`
			} `json:"metadata"`
		}
		err := getJSON(ctx, client, "/api/v1/namespaces/kube-system",
			"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json", &ns)
		return ns.Metadata.UID, err
	}
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

// requestError wraps err with the request, unless err has it, and with the server's reason, if there is one.
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

package requests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
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

// schemasFor is how long hashes are reused, unless the caller demands newer ones. Informers read them once an hour.
const schemasFor = 5 * time.Minute

// Schemas reads the hashes of the server's group-versions from /openapi/v3, for all informers of a program. One request
// returns the hashes of all group-versions, some ten kilobytes, so informers that connect within five minutes share it.
// Before a list by metadata an informer demands hashes that were read after it connected. Make one with NewSchemas.
type Schemas struct {
	urls *shared.Value[map[string]string]
}

// NewSchemas returns a Schemas. client is any REST client of the cluster, such as clientset.CoreV1().RESTClient().
func NewSchemas(client rest.Interface) *Schemas {
	return &Schemas{shared.New(openAPIPath, schemasFor, func(ctx context.Context) (map[string]string, error) {
		return readSchemas(ctx, client)
	})}
}

// Hash returns a function for Options.OpenAPIHash that returns the hash of gv; "" if the server does not list gv.
func (s *Schemas) Hash(gv schema.GroupVersion) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		urls, err := s.urls.Read(ctx)
		if err != nil {
			return "", err
		}
		return hashOf(urls, gv)
	}
}

// OpenAPIHash returns a function for Options.OpenAPIHash that reads the hash of gv from the server's /openapi/v3 with
// each call. The hash is empty if the server does not list gv. Programs with more than one informer use Schemas.
func OpenAPIHash(client rest.Interface, gv schema.GroupVersion) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		urls, err := readSchemas(ctx, client)
		if err != nil {
			return "", err
		}
		return hashOf(urls, gv)
	}
}

const openAPIPath = "/openapi/v3"

// readSchemas returns the schema URL of each group-version. The URL's query contains the hash.
func readSchemas(ctx context.Context, client rest.Interface) (map[string]string, error) {
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := getJSON(ctx, client, openAPIPath, "application/json", &index); err != nil {
		return nil, err
	}
	urls := make(map[string]string, len(index.Paths))
	for name, p := range index.Paths {
		urls[name] = p.ServerRelativeURL
	}
	return urls, nil
}

func hashOf(urls map[string]string, gv schema.GroupVersion) (string, error) {
	name := path.Join("apis", gv.Group, gv.Version)
	if gv.Group == "" {
		name = path.Join("api", gv.Version)
	}
	u, err := url.Parse(urls[name])
	if err != nil {
		return "", fmt.Errorf("the server's %s has no valid URL for %s: %w", openAPIPath, name, err)
	}
	return u.Query().Get("hash"), nil
}

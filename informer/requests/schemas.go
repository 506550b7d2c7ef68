package requests

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/informer/internal/shared"
)

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

// Package contract sends some thousand requests to kube-apiserver and to larder, and compares the answers: status,
// headers and bodies. Its rules are the intended differences, and equal the table in docs/serve.md.
package contract

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

var (
	shared   *world
	mirrored *target
)

var soak = os.Getenv("LARDER_SOAK") != ""

func TestMain(m *testing.M) {
	served.Run("contract", controlplane.Options{}, func(s *served.Site) (int, error) { return runAll(m, s) })
}

func runAll(m *testing.M, site *served.Site) (code int, err error) {
	ctx := context.Background()
	if shared, err = newWorld(ctx, site.Server); err != nil {
		return 1, err
	}
	var resources []string
	for _, k := range mirroredKinds {
		resources = append(resources, k.argument())
	}
	mirror, err := site.Mirror(ctx, "mirror", resources)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, mirror.Stop()) }()
	config, err := mirror.Config("")
	if err != nil {
		return 1, err
	}
	transport, err := transportFor(config)
	if err != nil {
		return 1, err
	}
	mirrored = newTarget("larder", config.Host, config.BearerToken, transport)
	if err := shared.listed(ctx, mirrored); err != nil { // the mirror's history begins here, before the latest changes
		return 1, err
	}
	if err := shared.makeChanges(ctx); err != nil {
		return 1, err
	}
	if err := shared.mirrored(ctx, mirrored); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func transportFor(config *rest.Config) (http.RoundTripper, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	return &http.Transport{TLSClientConfig: tls, DisableCompression: true, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: atOnce}, nil
}

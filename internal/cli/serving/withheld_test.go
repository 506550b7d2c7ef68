package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// TestAllResourcesExcludeSealed checks that "*" in --offline-access does not give access to an encrypted collection,
// while the resource's own name does. It checks a store whose configuration no longer encrypts the resource, and a
// snapshot (issue 37).
func TestAllResourcesExcludeSealed(t *testing.T) {
	dir := t.TempDir()
	keys, err := seal.ParseKeys([]byte(base64.StdEncoding.EncodeToString(make([]byte, 32))))
	if err != nil {
		t.Fatal(err)
	}
	quiet := logr.Discard()
	options := func(resources ...schema.GroupResource) store.Options {
		return store.Options{Logger: &quiet, Encryption: &seal.Encryption{Keys: keys, Resources: resources}}
	}
	path, saved := filepath.Join(dir, "s.db"), filepath.Join(dir, "saved.larder")
	fill(t, path, options(schema.GroupResource{Resource: "configmaps"}))
	st, err := store.Open(path, options()) // the default encrypts only Secrets
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if _, err := snapshot.SaveStore(t.Context(), st, saved, snapshot.SaveOptions{Secrets: true}); err != nil {
		t.Fatal(err)
	}
	f, err := snapshot.Open(saved, snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for name, src := range map[string]serve.Source{"store": serve.Store(st), "mirror": serve.Mirror(st,
		func() []entry.Identity { return []entry.Identity{identity("ConfigMap"), identity("Pod")} }), "snapshot": serve.Snapshot(f)} {
		t.Run(name, func(t *testing.T) {
			get := served(t, src)
			for _, c := range []struct {
				user, resource string
				forbidden      bool
			}{
				{"all", "pods", false}, {"all", "configmaps", true}, {"named", "configmaps", false}, {"named", "pods", true},
			} {
				if code := get(c.user, c.resource); (code == http.StatusForbidden) != c.forbidden {
					t.Errorf("%s lists %s: %d, want forbidden %v", c.user, c.resource, code, c.forbidden)
				}
			}
		})
	}
}

func identity(kind string) entry.Identity {
	resource := map[string]string{"ConfigMap": "configmaps", "Pod": "pods"}[kind]
	return entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: resource},
		Representation: entry.Unstructured}
}

func fill(t *testing.T, path string, o store.Options) {
	t.Helper()
	i, err := store.NewImport(t.Context(), path, store.ImportOptions{Store: o})
	for _, kind := range []string{"ConfigMap", "Pod"} {
		if err == nil {
			err = i.Begin(t.Context(), store.ImportCollection{Identity: identity(kind),
				Resource: entry.ResourceInfo{Kind: kind, Namespaced: true}})
		}
		if err == nil {
			_, err = i.End(t.Context(), store.ImportState{ResourceVersion: "7", Complete: true})
		}
	}
	if err == nil {
		err = i.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// served serves src to two users: "all" has access to "*" and "named" to the named resource. The returned function
// lists a resource as one of these users and returns the status code.
func served(t *testing.T, src serve.Source) func(user, resource string) int {
	t.Helper()
	status := func(context.Context) (source.Status, error) { return source.Status{}, nil }
	get := listen(t, Served{Source: src, Status: status})
	return func(user, resource string) int { return get("token-of-"+user, resource) }
}

// listen serves the content on a new port. The returned function lists a resource with a token and returns the status
// code.
func listen(t *testing.T, s Served) func(token, resource string) int {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules := write("rules.yaml", `{apiVersion: larder.dev/v1alpha1, kind: OfflineAccess, rules: [
{users: [all, "system:serviceaccount:monitoring:agent"], resources: ["*"], namespaces: ["*"]}, {users: [named], resources: [configmaps], namespaces: ["*"]}]}`)
	tokens := write("tokens.csv", "token-of-all,all,1\ntoken-of-named,named,2\n")
	var flags Flags
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.Add(set, "it")
	if err := set.Parse([]string{"--serve=127.0.0.1:0", "--serve-secrets", "--offline-access=" + rules,
		"--token-auth-file=" + tokens}); err != nil {
		t.Fatal(err)
	}
	p, err := Listen(t.Context(), Options{Flags: flags, Directory: filepath.Join(dir, "tls"), Temporary: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Serve(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.Config.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	return func(token, resource string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			fmt.Sprintf("%s/api/v1/%s", p.URL, resource), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
}

package facts_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/store"
)

var (
	coreV1  = schema.GroupVersion{Version: "v1"}
	appsV1  = schema.GroupVersion{Group: "apps", Version: "v1"}
	batchV1 = schema.GroupVersion{Group: "batch", Version: "v1"}
	goneV1  = schema.GroupVersion{Group: "gone.example.com", Version: "v1"}
)

// first are the paths that facts.Refresh requests if nothing is stored, except the paths of schemas.
var first = []string{".well-known/openid-configuration", "api", "api/v1", "apis", "apis/apps/v1", "apis/batch/v1",
	"apis/batch/v1beta1", "openid/v1/jwks", "version"}

// always are the paths that facts.Refresh requests even if everything is stored and unchanged.
var always = []string{".well-known/openid-configuration", "openid/v1/jwks", "version"}

func openStore(t *testing.T) *store.Store {
	t.Helper()
	quiet := logr.Discard()
	st, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{Logger: &quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r, err := st.Check(context.Background()); err != nil || len(r.Problems) > 0 {
			t.Errorf("check: %q, %v", r.Problems, err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func (a *api) asks(t *testing.T, st facts.Store, ask facts.Ask, want ...string) {
	t.Helper()
	a.asked()
	if err := facts.Refresh(t.Context(), st, ask); err != nil {
		t.Fatal(err)
	}
	want = slices.Sorted(slices.Values(want))
	if got := a.asked(); !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
}

func with(all []string, more ...string) []string { return append(slices.Clone(all), more...) }

func TestRefresh(t *testing.T) {
	a, st := newAPI(), openStore(t)
	ask := facts.Ask{Client: a.client(t), Of: []schema.GroupVersion{coreV1, appsV1, goneV1}, Schemas: true,
		Hash: func(_ context.Context, gv schema.GroupVersion) (string, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			path := "apis/" + gv.String()
			if gv == coreV1 {
				path = "api/v1"
			}
			return a.hashes[path], nil
		}}
	a.asks(t, st, ask, with(first, "openapi/v3", "openapi/v3/api/v1", "openapi/v3/apis/apps/v1")...)
	a.asks(t, st, ask, always...)
	// A group-version that discovery lacked may be served after a day, so discovery is requested again.
	age(t, st, 25*time.Hour)
	a.asks(t, st, ask, first...)
	ask.Of = ask.Of[:2]
	age(t, st, 25*time.Hour)
	a.asks(t, st, ask, always...)
	age(t, st, 8*24*time.Hour)
	a.asks(t, st, ask, first...)
	s, err := facts.Read(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	if s.Version.GitVersion != "v1.36.3" || s.Version.GoVersion != "go" {
		t.Errorf("%+v", s.Version)
	}
	if s.Keys.Issuer != "https://cluster" || !strings.Contains(string(s.Keys.JWKS), `"kid":"first"`) ||
		s.Keys.Fetched.IsZero() {
		t.Errorf("%+v", s.Keys)
	}
	var groups []string
	for _, g := range s.Discovery.Groups {
		groups = append(groups, g.Group.Name+" "+g.Group.PreferredVersion.Version)
	}
	if d := cmp.Diff([]string{" v1", "apps v1", "batch v1"}, groups); d != "" {
		t.Error(d)
	}
	if r, ok := s.Discovery.Resource(coreV1.WithResource("pods")); !ok || r.Kind != "PODS" || !r.Namespaced {
		t.Errorf("%+v, %t", r, ok)
	}
	if _, ok := s.Discovery.Resource(appsV1.WithResource("pods")); ok {
		t.Error("a resource that there is not")
	}
	wantSchemas(t, st, map[schema.GroupVersion]string{coreV1: "A1", appsV1: "B1"})

	a.change(func(a *api) { a.hashes["apis/apps/v1"] = "B2" })
	a.asks(t, st, ask, with(always, "openapi/v3", "openapi/v3/apis/apps/v1")...)
	wantSchemas(t, st, map[schema.GroupVersion]string{coreV1: "A1", appsV1: "B2"})

	a.change(func(a *api) { a.version, a.keys = "v1.36.4", "second" })
	a.asks(t, st, ask, first...)
	if s, err = facts.Read(t.Context(), st); err != nil || s.Version.GitVersion != "v1.36.4" ||
		!strings.Contains(string(s.Keys.JWKS), "second") {
		t.Errorf("%+v, %v", s, err)
	}

	ask.Of = []schema.GroupVersion{appsV1, batchV1}
	a.asks(t, st, ask, with(always, "openapi/v3", "openapi/v3/apis/batch/v1")...)
	wantSchemas(t, st, map[schema.GroupVersion]string{appsV1: "B2", batchV1: "C1"})

	ask.Schemas = false
	a.change(func(a *api) { a.hashes["apis/apps/v1"] = "B3" })
	a.asks(t, st, ask, always...)
	wantSchemas(t, st, map[schema.GroupVersion]string{appsV1: "B2", batchV1: "C1"})
}

func age(t *testing.T, st *store.Store, by time.Duration) {
	t.Helper()
	d, err := facts.ReadDiscovery(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	d.Fetched = time.Now().Add(-by)
	if err := d.Put(t.Context(), st); err != nil {
		t.Fatal(err)
	}
}

func wantSchemas(t *testing.T, st facts.Documents, want map[schema.GroupVersion]string) {
	t.Helper()
	s, err := facts.Read(t.Context(), st)
	if d := cmp.Diff(want, s.Schemas); d != "" || err != nil {
		t.Errorf("%s, %v", d, err)
	}
	for gv, hash := range want {
		path := strings.Replace("apis/"+gv.String(), "apis/v1", "api/v1", 1)
		got, gotHash, err := facts.OpenAPI(t.Context(), st, gv, nil)
		if strings.TrimSpace(string(got)) != document(path, hash) || gotHash != hash || err != nil {
			t.Errorf("%s: %s of %s, %v", gv, got, gotHash, err)
		}
	}
	if got, _, err := facts.OpenAPI(t.Context(), st, goneV1, nil); got != nil || err != nil {
		t.Errorf("one that is not stored: %s, %v", got, err)
	}
}

// TestRefreshByTheIndex checks that without Ask.Hash the hashes are taken from the server's index of schemas. The index
// may lack hashes.
func TestRefreshByTheIndex(t *testing.T) {
	a, m := newAPI(), facts.Memory{}
	ask := facts.Ask{Client: a.client(t), Of: []schema.GroupVersion{coreV1, appsV1}, Schemas: true}
	a.asks(t, m, ask, with(first, "openapi/v3", "openapi/v3/api/v1", "openapi/v3/apis/apps/v1")...)
	a.asks(t, m, ask, with(always, "openapi/v3")...)
	a.change(func(a *api) { a.hashes["apis/apps/v1"] = "" })
	for range 2 {
		a.asks(t, m, ask, with(always, "openapi/v3", "openapi/v3/apis/apps/v1")...)
	}
	if s, err := facts.Read(t.Context(), m); err != nil || len(s.Schemas[appsV1]) != 128 {
		t.Errorf("%+v, %v, want a hash of its own", s.Schemas, err)
	}
}

// TestOtherCluster checks that the stored keys of another cluster are deleted at once, even if the new cluster refuses
// to return its keys. Discovery is then requested again.
func TestOtherCluster(t *testing.T) {
	a, m := newAPI(), facts.Memory{}
	ask := facts.Ask{Client: a.client(t), Of: []schema.GroupVersion{appsV1}, Cluster: "one"}
	a.asks(t, m, ask, first...)
	if s, err := facts.Read(t.Context(), m); err != nil || s.Keys.Cluster != "one" {
		t.Errorf("%+v, %v", s.Keys, err)
	}
	a.change(func(a *api) { a.refuses["openid/v1/jwks"] = http.StatusForbidden })
	for _, same := range []string{"", "one"} {
		ask.Cluster = same
		a.asks(t, m, ask, always...)
		if s, err := facts.Read(t.Context(), m); err != nil || s.Keys == nil {
			t.Errorf("%q: the keys are gone, %v", same, err)
		}
	}
	ask.Cluster = "other"
	a.asks(t, m, ask, first...)
	if s, err := facts.Read(t.Context(), m); err != nil || s.Keys != nil {
		t.Errorf("%+v, %v", s.Keys, err)
	}
}

type full struct{ facts.Memory }

var errFull = errors.New("no space")

func (f full) PutDocument(ctx context.Context, name string, data []byte) error {
	if strings.HasPrefix(name, "openapi/") {
		return errFull
	}
	return f.Memory.PutDocument(ctx, name, data)
}

// TestUnstored checks that a schema that cannot be stored is not requested again until its hash changes.
func TestUnstored(t *testing.T) {
	a, st := newAPI(), full{facts.Memory{}}
	ask := facts.Ask{Client: a.client(t), Of: []schema.GroupVersion{appsV1}, Schemas: true,
		Unstored: map[schema.GroupVersion]string{}}
	if err := facts.Refresh(t.Context(), st, ask); !errors.Is(err, errFull) {
		t.Error(err)
	}
	a.asks(t, st, ask, with(always, "openapi/v3")...)
	a.change(func(a *api) { a.hashes["apis/apps/v1"] = "B2" })
	a.asked()
	if err := facts.Refresh(t.Context(), st, ask); !errors.Is(err, errFull) {
		t.Error(err)
	}
	if got := a.asked(); !slices.Contains(got, "openapi/v3/apis/apps/v1") {
		t.Errorf("asked for %q", got)
	}
}

// TestRefused checks that facts that the server refuses to return stay unchanged, and that refused keys are no error.
func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		path  string
		code  int
		fails bool
	}{
		{"openid/v1/jwks", http.StatusForbidden, false},
		{".well-known/openid-configuration", http.StatusNotFound, false},
		{".well-known/openid-configuration", http.StatusInternalServerError, true},
		{"version", http.StatusForbidden, true},
		{"openapi/v3", http.StatusNotFound, true},
		{"openapi/v3/apis/apps/v1", http.StatusServiceUnavailable, true},
	} {
		a, st := newAPI(), openStore(t)
		ask := facts.Ask{Client: a.client(t), Of: []schema.GroupVersion{appsV1, coreV1}, Schemas: true}
		if err := facts.Refresh(t.Context(), st, ask); err != nil {
			t.Fatal(err)
		}
		before, err := facts.Read(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		a.change(func(a *api) {
			a.refuses[tc.path] = tc.code
			a.version, a.keys, a.hashes["apis/apps/v1"], a.hashes["api/v1"] = "v1.36.4", "second", "B2", "A2"
		})
		if err := facts.Refresh(t.Context(), st, ask); (err != nil) != tc.fails {
			t.Errorf("%+v: %v", tc, err)
		}
		after, err := facts.Read(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		kept := map[string]bool{
			"version": after.Version.GitVersion == before.Version.GitVersion,
			"keys":    string(after.Keys.JWKS) == string(before.Keys.JWKS),
			"apps":    after.Schemas[appsV1] == before.Schemas[appsV1],
			"core":    after.Schemas[coreV1] == before.Schemas[coreV1],
		}
		want := map[string]bool{
			"version": tc.path == "version", "keys": strings.Contains(tc.path, "openid"),
			"apps": strings.HasPrefix(tc.path, "openapi"), "core": tc.path == "openapi/v3",
		}
		if d := cmp.Diff(want, kept); d != "" {
			t.Errorf("%+v: stayed:\n%s", tc, d)
		}
	}
}

// TestDown checks that Refresh sends a single request to a server that does not respond.
func TestDown(t *testing.T) {
	a, st := newAPI(), openStore(t)
	a.change(func(a *api) { a.down = true })
	client := a.client(t)
	if err := facts.Refresh(t.Context(), st, facts.Ask{Client: client, Of: []schema.GroupVersion{appsV1},
		Schemas: true}); err == nil {
		t.Error("it has answered")
	}
	if got := a.asked(); !slices.Equal(got, []string{"version"}) {
		t.Errorf("asked for %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := facts.Refresh(ctx, st, facts.Ask{Client: client}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s, err := facts.Read(t.Context(), st)
	if err != nil || s.Version != nil || s.Discovery != nil || s.Keys != nil || len(s.Schemas) > 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestPartOfDiscovery checks that a group-version keeps its stored resources while its aggregated API server is down.
func TestPartOfDiscovery(t *testing.T) {
	a, m := newAPI(), facts.Memory{}
	ask := facts.Ask{Client: a.client(t), Of: []schema.GroupVersion{batchV1}}
	if err := facts.Refresh(t.Context(), m, ask); err != nil {
		t.Fatal(err)
	}
	a.change(func(a *api) { a.version, a.refuses["apis/batch/v1"] = "v1.36.4", http.StatusServiceUnavailable })
	if err := facts.Refresh(t.Context(), m, ask); err != nil {
		t.Fatal(err)
	}
	d, err := facts.ReadDiscovery(t.Context(), m)
	if err != nil || !d.Has(batchV1) {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestUnreadable checks that facts.Read reports unreadable documents and returns all other facts. facts.Refresh then
// requests the unreadable documents again.
func TestUnreadable(t *testing.T) {
	a, m := newAPI(), facts.Memory{}
	ask := facts.Ask{Client: a.client(t), Of: []schema.GroupVersion{coreV1, appsV1}, Schemas: true}
	if err := facts.Refresh(t.Context(), m, ask); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{"discovery": `{"version":3}`, "service-account-keys": "x",
		"openapi/apis/apps/v1": "no line", "server-version": "{"} {
		good := m[name]
		m[name] = []byte(bad)
		s, err := facts.Read(t.Context(), m)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if (s.Version == nil) != (name == "server-version") || (s.Discovery == nil) != (name == "discovery") ||
			(s.Keys == nil) != (name == "service-account-keys") || len(s.Schemas) == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if err := facts.Refresh(t.Context(), m, ask); err != nil || len(m[name]) < len(good)-2 {
			t.Errorf("%s: %q, %v, want it stored anew", name, m[name], err)
		}
		if _, err := facts.Read(t.Context(), m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	m["openapi/api/v1"] = []byte("A1\nno zstd")
	if _, _, err := facts.OpenAPI(t.Context(), m, coreV1, nil); err == nil || !strings.Contains(err.Error(), "openapi/api/v1") {
		t.Error(err)
	}
}

// TestVersionAsText checks that a server version that another program stored as plain text, such as v1.36.3, can be
// read.
func TestVersionAsText(t *testing.T) {
	v, err := facts.ReadVersion(t.Context(), facts.Memory{store.DocumentServerVersion: []byte("v1.36.3\n")})
	if err != nil || v.GitVersion != "v1.36.3" || v.Major != "1" || v.Minor != "36" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestCarried(t *testing.T) {
	a, m := newAPI(), facts.Memory{"program's": []byte("own"), "openapi/nonsense": nil, "openapi/apis/apps": nil}
	ask := facts.Ask{Client: a.client(t), Of: []schema.GroupVersion{coreV1, appsV1, batchV1}, Schemas: true}
	if err := facts.Refresh(t.Context(), m, ask); err != nil {
		t.Fatal(err)
	}
	of := []schema.GroupVersion{batchV1}
	names, err := facts.Carried(t.Context(), m, of, false)
	if want := []string{"discovery", "openapi/apis/batch/v1", "server-version",
		"service-account-keys"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v, want %q", names, err, want)
	}
	if names, err = facts.Carried(t.Context(), m, nil, true); err != nil || !slices.Equal(names,
		[]string{"discovery", "server-version"}) {
		t.Errorf("%q, %v", names, err)
	}
	part := facts.Memory{}
	if part["discovery"], err = facts.Carry(t.Context(), m, "discovery", of); err != nil {
		t.Fatal(err)
	}
	d, err := facts.ReadDiscovery(t.Context(), part)
	if err != nil || len(d.Groups) != 1 || len(d.Groups[0].Group.Versions) != 2 {
		t.Errorf("%+v, %v, want one group", d, err)
	}
	if data, err := facts.Carry(t.Context(), m, "gone", of); data != nil || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

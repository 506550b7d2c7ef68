package snapshot_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/informer"
)

func wantServerState(t *testing.T, s *seedServer, i *informer.Informer) {
	t.Helper()
	fresh, stop := s.run("fresh.db", &unstructured.Unstructured{}, nil)
	defer stop()
	want, got := held(t, fresh.GetStore().List()), held(t, i.GetStore().List())
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("relists %v, seed %+v; objects (- server, + store):\n%s", i.Status().Reflector.Relists, i.Status().Seed, d)
	}
}

// TestSecondSeedAfterARewind restores the cluster from a backup between two seeds, so that objects of equal UID and
// resourceVersion have different bodies (issue 37).
func TestSecondSeedAfterARewind(t *testing.T) {
	s := newSeeds(t)
	backup := s.api.Snapshot()
	for n := range 5 {
		s.write(n, "lost")
	}
	first := s.save("first.larder", &unstructured.Unstructured{}, nil)
	if err := s.api.Restore(backup); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		s.write(n, "new")
	}
	for n := 20; n < 40; n++ {
		s.write(n, "later")
	}
	s.api.Compact()
	second := s.save("second.larder", &unstructured.Unstructured{}, nil)
	i, stop := s.run("store.db", &unstructured.Unstructured{}, func(o *informer.Options) { o.Seed = opens(first, second) })
	defer stop()
	wantServerState(t, s, i)
}

// TestListAfterPartOfARewoundSeed lists after reading a seed failed halfway. Objects of equal UID and resourceVersion
// have different bodies (issue 37).
func TestListAfterPartOfARewoundSeed(t *testing.T) {
	s := newSeeds(t)
	backup := s.api.Snapshot()
	for n := 0; n < 24; n += 4 { // the snapshot has one more object than the server gets after the restore
		s.write(n, "lost")
	}
	first := s.save("first.larder", &unstructured.Unstructured{}, nil)
	if err := s.api.Restore(backup); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 20; n += 4 {
		s.write(n, "new")
	}
	i, stop := s.run("store.db", &unstructured.Unstructured{}, func(o *informer.Options) {
		o.Seed, o.PageSize = cutSeed{opens(first)}, 5
	})
	defer stop()
	wantServerState(t, s, i)
}

// defaulting changes bodies, but not resourceVersions, in the server's answers, like a changed default of a field.
type defaulting struct {
	next http.RoundTripper
	on   *atomic.Bool
}

func (d defaulting) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "identity")
	a, err := d.next.RoundTrip(r)
	if err != nil || !d.on.Load() || r.URL.Query().Get("watch") != "" {
		return a, err
	}
	body, err := io.ReadAll(a.Body)
	a.Body.Close()
	body = bytes.ReplaceAll(body, []byte(`"version":"old"`), []byte(`"version":"dft"`))
	a.Body = io.NopCloser(bytes.NewReader(body))
	return a, err
}

// TestListAfterPartOfASeedOfAnOlderSchema checks that the list after a seed of an older schema replaces bodies of equal
// UID and resourceVersion (issue 37).
func TestListAfterPartOfASeedOfAnOlderSchema(t *testing.T) {
	s := newSeeds(t)
	on := &atomic.Bool{}
	config := rest.CopyConfig(s.api.Config())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return defaulting{next, on} })
	s.client = value(kubernetes.NewForConfig(config))(t).CoreV1().RESTClient()
	t.Cleanup(s.client.(*rest.RESTClient).Client.CloseIdleConnections)
	hash := func(o *informer.Options) {
		o.OpenAPIHash = func(context.Context) (string, error) {
			if on.Load() {
				return "B", nil
			}
			return "A", nil
		}
	}
	first := s.save("first.larder", &unstructured.Unstructured{}, hash)
	on.Store(true)
	i, stop := s.run("store.db", &unstructured.Unstructured{}, func(o *informer.Options) {
		hash(o)
		o.Seed, o.PageSize = cutSeed{opens(first)}, 5
	})
	defer stop()
	wantServerState(t, s, i)
}

package serve_test

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

// listInto stores n pods in a collection of all pods with the representation r, whose LastContact is at.
func listInto(t *testing.T, st *store.Store, r entry.Representation, n int, rv string, at time.Time) {
	t.Helper()
	id := allPods
	id.Representation = r
	c, err := st.Collection(t.Context(), id, store.CollectionOptions{Codec: codec.Unstructured(),
		Resource: entry.ResourceInfo{Kind: "Pod", Singular: "pod", Namespaced: true}})
	must(t, err)
	listPods(t, c, n, rv)
	_, err = c.Apply(t.Context(), entry.Batch{ResourceVersion: rv, LastContact: at})
	must(t, err)
	must(t, c.Close())
}

// TestLatestCollectionAnswers checks that requests are answered from the collection with the latest LastContact, if
// several collections contain all pods (issue 37).
func TestLatestCollectionAnswers(t *testing.T) {
	now := time.Now()
	for _, latest := range []entry.Representation{entry.Unstructured, "typed"} {
		st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
		must(t, err)
		for _, r := range []entry.Representation{entry.Unstructured, "typed"} {
			if r == latest {
				listInto(t, st, r, 2, "12", now)
			} else {
				listInto(t, st, r, 1, "11", now.Add(-time.Second))
			}
		}
		h, err := serve.New(serve.Store(st), serve.Options{})
		must(t, err)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pods", nil))
		if !strings.Contains(w.Body.String(), `"resourceVersion":"12"`) {
			t.Errorf("the latest is %s: %d %.200s", latest, w.Code, w.Body)
		}
		must(t, h.Close())
		must(t, st.Close())
	}
}

// TestLiveCollectionAnswers checks that a collection that this process updates takes precedence over other collections,
// even with an earlier LastContact.
func TestLiveCollectionAnswers(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
	must(t, err)
	defer st.Close()
	listInto(t, st, "typed", 1, "11", time.Now())
	c := openPods(t, st)
	listPods(t, c, 2, "12")
	_, err = c.Apply(t.Context(), entry.Batch{ResourceVersion: "12", LastContact: time.Now().Add(-time.Hour)})
	must(t, err)
	must(t, st.Flush(t.Context()))
	h, err := serve.New(serve.Store(st), serve.Options{})
	must(t, err)
	defer func() { must(t, h.Close()) }()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pods", nil))
	if !strings.Contains(w.Body.String(), `"resourceVersion":"12"`) {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}

func TestKnownDefects(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
	must(t, err)
	defer st.Close()
	c := openPods(t, st)
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{Attributes: entry.Attributes{Transform: "7"}})
	must(t, err)
	_, err = r.Page(t.Context(), []runtime.Object{podOf(0, "11"), podOf(1, "11")},
		entry.LeftOut{ObjectRef: entry.ObjectRef{Key: "default/secret-name", ResourceVersion: "12"}, Reason: "refused"})
	must(t, err)
	_, err = r.Commit(t.Context(), entry.Batch{ResourceVersion: "12", LastContact: time.Now().Add(-time.Hour)})
	must(t, err)
	must(t, c.SetMustRelist(t.Context(), "it was asked for"))
	h, err := serve.New(serve.Store(st), serve.Options{})
	must(t, err)
	defer h.Close()
	for _, path := range []string{"/api/v1/pods", "/api/v1/pods?limit=1", "/api/v1/namespaces/default/pods/p0000"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		got := strings.Join(w.Header()["Warning"], "\n")
		for _, want := range []string{"to be listed again (it was asked for)",
			"objects that could not be stored are missing, or older than the server's: 1", `a transform (version \"7\") changed the objects`, "the API server was last heard of at"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %d, the warnings lack %q:\n%s", path, w.Code, want, got)
			}
		}
		if strings.Contains(got, "secret-name") {
			t.Errorf("%s: the warnings name an object: %s", path, got)
		}
	}
	live, err := serve.New(serve.Store(st), serve.Options{Notes: func(entry.Info) []entry.Note {
		return entry.Info{}.Notes(time.Now(), true)
	}})
	must(t, err)
	defer live.Close()
	w := httptest.NewRecorder()
	live.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pods", nil))
	if got := w.Header()["Warning"]; len(got) != 1 || !strings.Contains(got[0], "larder: pods: the API server refuses to watch") {
		t.Errorf("the warnings are not those of Options.Notes: %q", got)
	}
}

package remote_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"aead.dev/minisign"

	"github.com/larder-dev/larder/snapshot/remote"
)

// TestPlainHTTP checks that a seed over http is not even requested unless a signature is required (issue 37).
func TestPlainHTTP(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.NotFound(w, r)
	}))
	defer server.Close()
	key, _, err := minisign.GenerateKey(nil)
	must(t, err)
	signed := remote.Options{SignedBy: []minisign.PublicKey{key}}
	for _, from := range []string{server.URL + "/s.larder", "HTTP" + server.URL[4:] + "/snapshots/"} {
		if err := remote.Check(from, remote.Options{}); !errors.Is(err, remote.ErrPlainHTTP) {
			t.Errorf("%s: %v", from, err)
		}
		if _, err := remote.Seed(from, remote.Options{})(t.Context(), time.Time{}); !errors.Is(err, remote.ErrPlainHTTP) {
			t.Errorf("%s: %v", from, err)
		}
		if requests > 0 {
			t.Errorf("%s: %d requests", from, requests)
		}
		must(t, remote.Check(from, signed))
	}
	if _, err := remote.Seed(server.URL+"/s.larder", signed)(t.Context(), time.Time{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	must(t, remote.Check("https://example.com/s.larder", remote.Options{}))
}

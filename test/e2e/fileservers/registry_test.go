package fileservers_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/larder-dev/larder/test/e2e/fileservers"
)

var digest = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))

// TestRegistry checks that a blob can be pushed, found, read in full and in part, read from another server on the same
// directory, and deleted.
func TestRegistry(t *testing.T) {
	dir := t.TempDir()
	t.Run("push", func(t *testing.T) {
		host := fileservers.Registry(t, dir)
		push(t, account{}, host)
		found, _ := send(t, account{}, http.MethodHead, blob(host), nil, nil)
		if found.StatusCode != http.StatusOK || found.ContentLength != int64(len(text)) {
			t.Errorf("HEAD: %s, %d bytes, want %d", found.Status, found.ContentLength, len(text))
		}
		all, body := send(t, account{}, http.MethodGet, blob(host), nil, nil)
		if all.StatusCode != http.StatusOK || body != text {
			t.Errorf("GET: %s, %q", all.Status, body)
		}
	})
	t.Run("another server", func(t *testing.T) {
		host := fileservers.Registry(t, dir)
		part, body := send(t, account{}, http.MethodGet, blob(host), nil, map[string]string{"Range": "bytes=5-13"})
		if part.StatusCode != http.StatusPartialContent || body != text[5:14] {
			t.Errorf("GET of a range: %s, %q", part.Status, body)
		}
		if want := fmt.Sprintf("bytes 5-13/%d", len(text)); part.Header.Get("Content-Range") != want {
			t.Errorf("Content-Range is %q, want %q", part.Header.Get("Content-Range"), want)
		}
		deleted, body := send(t, account{}, http.MethodDelete, blob(host), nil, nil)
		if deleted.StatusCode != http.StatusAccepted {
			t.Errorf("DELETE: %s, %s", deleted.Status, body)
		}
		after, _ := send(t, account{}, http.MethodGet, blob(host), nil, nil)
		if after.StatusCode != http.StatusNotFound {
			t.Errorf("GET after DELETE: %s", after.Status)
		}
	})
}

func TestRegistryAs(t *testing.T) {
	owner := account{"larder", "a password"}
	host := fileservers.RegistryAs(t, t.TempDir(), owner.user, owner.password)
	for _, stranger := range []account{{}, {owner.user, "another password"}, {"somebody", owner.password}} {
		answer, _ := send(t, stranger, http.MethodPost, uploads(host), nil, nil)
		challenge := answer.Header.Get("WWW-Authenticate")
		if answer.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(challenge, "Basic ") {
			t.Errorf("%q: %s, challenge %q", stranger.user, answer.Status, challenge)
		}
	}
	push(t, owner, host)
	if answer, body := send(t, owner, http.MethodGet, blob(host), nil, nil); body != text {
		t.Errorf("GET: %s, %q", answer.Status, body)
	}
	answer, _ := send(t, account{}, http.MethodGet, blob(host), nil, nil)
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("GET without a password: %s", answer.Status)
	}
}

func push(t *testing.T, a account, host string) {
	t.Helper()
	begun, body := send(t, a, http.MethodPost, uploads(host), nil, nil)
	if begun.StatusCode != http.StatusAccepted {
		t.Fatalf("POST: %s, %s", begun.Status, body)
	}
	location, err := begun.Location()
	if err != nil {
		t.Fatal(err)
	}
	query := location.Query()
	query.Set("digest", digest)
	location.RawQuery = query.Encode()
	stored, body := send(t, a, http.MethodPut, location.String(), strings.NewReader(text),
		map[string]string{"Content-Type": "application/octet-stream"})
	if stored.StatusCode != http.StatusCreated || stored.Header.Get("Docker-Content-Digest") != digest {
		t.Fatalf("PUT: %s, %s", stored.Status, body)
	}
}

func uploads(host string) string { return repository(host, "uploads") + "/" }

func blob(host string) string { return repository(host, digest) }

func repository(host, path string) string {
	return (&url.URL{Scheme: "http", Host: host, Path: "/v2/larder/seeds/blobs/" + path}).String()
}

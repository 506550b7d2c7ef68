package oci_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/remote"
	"github.com/larder-dev/larder/snapshot/remote/oci"
)

// registry is an OCI registry with one snapshot, tagged v1.
type registry struct {
	manifest []byte
	blob     []byte
	redirect string // target of a redirect for requests of the layer; empty for no redirect
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.larder")
	if _, err := snapshot.Save(t.Context(), empty{}, path, snapshot.SaveOptions{
		Header: snapshot.Header{Larder: "v1", TakenAt: time.Unix(1, 0).UTC()}}); err != nil {
		t.Fatal(err)
	}
	blob, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &registry{blob: blob}
	r.manifest, err = json.Marshal(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest, ArtifactType: oci.MediaType, Config: ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{{MediaType: oci.MediaType, Digest: digest.FromBytes(blob), Size: int64(len(blob))}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type empty struct{ snapshot.Source }

func (empty) Collections(context.Context) ([]snapshot.Collection, error) { return nil, nil }

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	manifest := digest.FromBytes(r.manifest)
	switch path := q.URL.Path; {
	case path == "/v2/a/b/manifests/v1" || path == "/v2/a/b/manifests/"+manifest.String():
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Docker-Content-Digest", manifest.String())
		_, _ = w.Write(r.manifest)
	case strings.HasPrefix(path, "/v2/a/b/blobs/") && r.redirect != "":
		http.Redirect(w, q, r.redirect, http.StatusTemporaryRedirect)
	case strings.HasPrefix(path, "/v2/a/b/blobs/") || path == "/elsewhere":
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(r.blob))
	default:
		http.NotFound(w, q)
	}
}

// open opens and closes a snapshot, and checks that no temporary file is left.
func open(t *testing.T, url string) error {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	f, err := remote.Open(t.Context(), url, remote.Options{Schemes: map[string]remote.Scheme{"oci": oci.Scheme}})
	if err == nil {
		err = f.Close()
	}
	left, readErr := os.ReadDir(os.TempDir())
	if readErr != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, readErr)
	}
	return err
}

// TestDigest checks that a layer with another size than in the manifest is refused, and, for a URL with a digest, a
// layer or manifest with other contents (issue 37).
func TestDigest(t *testing.T) {
	sound := newRegistry(t)
	other := bytes.Clone(sound.blob)
	// Without a check of the digest, snapshot.NewFile would refuse the altered footer with another error.
	other[len(other)-1]++
	of := digest.FromBytes(sound.manifest).String()
	for name, tt := range map[string]struct {
		change    func(r *registry)
		reference string
		want      string
	}{
		"a tag":           {func(*registry) {}, ":v1", ""},
		"a digest":        {func(*registry) {}, "@" + of, ""},
		"a shorter layer": {func(r *registry) { r.blob = r.blob[1:] }, ":v1", "and its manifest says"},
		"another layer":   {func(r *registry) { r.blob = other }, "@" + of, "the registry sent something other than sha256:"},
		"another manifest": {func(r *registry) { r.manifest = bytes.Replace(r.manifest, []byte("{"), []byte("{ "), 1) },
			"@" + of, "no such thing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := *sound
			tt.change(&r)
			server := httptest.NewServer(&r)
			defer server.Close()
			err := open(t, "oci://"+server.Listener.Addr().String()+"/a/b"+tt.reference)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestRedirectWithoutTLS checks that a registry with TLS cannot redirect to a server without it (issue 37).
func TestRedirectWithoutTLS(t *testing.T) {
	r := newRegistry(t)
	secure, plain := httptest.NewTLSServer(r), httptest.NewServer(r)
	defer secure.Close()
	defer plain.Close()
	pool := x509.NewCertPool()
	pool.AddCert(secure.Certificate())
	kept := http.DefaultTransport
	http.DefaultTransport = &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com"}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			to := secure
			if strings.HasSuffix(addr, ":80") {
				to = plain
			}
			return new(net.Dialer).DialContext(ctx, network, to.Listener.Addr().String())
		},
	}
	defer func() { http.DefaultTransport = kept }()
	for redirect, want := range map[string]string{
		"https://cdn.example.com/elsewhere": "",
		"http://cdn.example.com/elsewhere":  "the registry leads from https to http://cdn.example.com",
	} {
		r.redirect = redirect
		err := open(t, "oci://registry.example.com/a/b:v1")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", redirect, err, want)
		}
	}
}

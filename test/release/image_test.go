package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/partial"
)

// TestImage checks that equal programs give byte-equal images and archives. The image must have the program and the
// root certificates, and must not run as root.
func TestImage(t *testing.T) {
	var archives [][]byte
	for range 2 {
		dir := t.TempDir()
		var images []imageFor
		for _, p := range []string{"linux/amd64", "linux/arm"} {
			program := filepath.Join(dir, strings.ReplaceAll(p, "/", "-"))
			if err := os.WriteFile(program, []byte("program for "+p), 0o600); err != nil {
				t.Fatal(err)
			}
			images = append(images, imageFor{p, program})
		}
		if _, err := writeImage(filepath.Join(dir, "image.tar"), images); err != nil {
			t.Fatal(err)
		}
		archive, err := os.ReadFile(filepath.Join(dir, "image.tar"))
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
		wantImage(t, images[1])
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two builds of one image differ")
	}
	names := filesOf(t, bytes.NewReader(archives[0]))
	if names["oci-layout"] == nil || !bytes.Contains(names["index.json"], []byte(refName)) {
		t.Errorf("this is no OCI layout with the name %s: %s", refName, names["index.json"])
	}
}

func wantImage(t *testing.T, i imageFor) {
	t.Helper()
	image, err := i.build()
	if err != nil {
		t.Fatal(err)
	}
	config, err := partial.ConfigFile(image)
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "arm" || config.Config.User != "65532:65532" {
		t.Errorf("configuration: %+v", config)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range filesOf(t, r) {
			files[name] = data
		}
	}
	if got := string(files["usr/local/bin/larder"]); got != "program for linux/arm" {
		t.Errorf("the program is %q", got)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("no root certificates")
	}
}

func filesOf(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

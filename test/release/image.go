package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

type imageFor struct{ platform, program string }

// refName is the image's name in the archive, for docker load and ctr images import.
const refName = "larder:latest"

// writeImage writes an OCI archive with an image per platform, and returns the digest of the image index.
func writeImage(file string, images []imageFor) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		image, err := i.build()
		if err != nil {
			return v1.Hash{}, fmt.Errorf("image for %s: %w", i.platform, err)
		}
		os, arch, _ := strings.Cut(i.platform, "/")
		platform := &v1.Platform{OS: os, Architecture: arch}
		if arch == "arm" {
			platform.Variant = "v7"
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	return digest, writeArchive(file, index)
}

// build returns an image with two layers and no base image: root certificates and program.
func (i imageFor) build() (v1.Image, error) {
	program, err := os.ReadFile(i.program)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range [][]imageFile{
		{{"etc/ssl/certs/ca-certificates.crt", 0o644, rootCertificates()}},
		{{"usr/local/bin/larder", 0o755, program}},
	} {
		data, err := tarOf(files)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data)),
				nil
		},
			tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
	}
	os, arch, _ := strings.Cut(i.platform, "/")
	return mutate.ConfigFile(image, configFile(image, os, arch))
}

func configFile(image v1.Image, os, arch string) *v1.ConfigFile {
	c, err := image.ConfigFile()
	if err != nil {
		panic(err) // cannot fail: the image is in memory
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = os, arch
	if arch == "arm" {
		c.Variant = "v7"
	}
	c.Config = v1.Config{
		User:       "65532:65532",
		Entrypoint: []string{"/usr/local/bin/larder"},
		Env:        []string{"PATH=/usr/local/bin"},
	}
	return c
}

// rootCertificates returns Mozilla's root certificates as PEM, without the constrained roots.
func rootCertificates() []byte {
	var out bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint != nil {
			continue
		}
		if cert, err := x509.ParseCertificate(r.Certificate); err == nil {
			fmt.Fprintf(&out, "# %s\n", cert.Subject)
		}
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate})
	}
	return out.Bytes()
}

type imageFile struct {
	name string
	mode int64
	data []byte
}

// tarOf returns a tar archive of the files and their parent directories. Owner 0 and no timestamps make the archive
// reproducible.
func tarOf(files []imageFile) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{}
	for _, f := range files {
		parts := strings.Split(f.name, "/")
		for n := 1; n < len(parts); n++ {
			dir := strings.Join(parts[:n], "/") + "/"
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
				return nil, err
			}
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode,
			Size: int64(len(f.data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeArchive(file string, index v1.ImageIndex) (err error) {
	dir, err := os.MkdirTemp("", "larder-image")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	names := map[string]string{"org.opencontainers.image.ref.name": "latest", "io.containerd.image.name": refName}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	var files []imageFile
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		files = append(files, imageFile{filepath.ToSlash(rel), 0o644, data})
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b imageFile) int { return strings.Compare(a.name, b.name) })
	data, err := tarOf(files)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	registries "oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/larder-dev/larder/snapshot/remote"
)

// MediaType is the type of the artifact and of its layer.
const MediaType = "application/vnd.larder.snapshot.v1"

const (
	suffix      = ".larder" // file names end in .larder; tags do not
	latest      = "latest"  // name of the file, and of the tag, for the newest snapshot
	maxManifest = 1 << 20
)

// repository implements remote.Files for a repository of an OCI registry: each tag is a file.
type repository struct {
	repo   *registries.Repository
	client *auth.Client
}

// Scheme is the remote.Scheme of oci URLs. It sends no request.
func Scheme(u *url.URL) (remote.Files, string, error) {
	const form = "it is oci://REGISTRY/REPOSITORY or oci://REGISTRY/REPOSITORY:TAG"
	if u.User != nil || u.RawQuery != "" {
		return nil, "", errors.New(form + ", and credentials are those of docker login")
	}
	ref, err := registry.ParseReference(u.Host + strings.TrimSuffix(u.Path, "/"))
	if err != nil {
		return nil, "", errors.New(form)
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("the credentials of docker login cannot be read: %w", err)
	}
	sent := retry.NewClient()
	if !isLoopback(ref.Host()) {
		sent.Transport = httpsOnly{sent.Transport}
	}
	client := &auth.Client{Client: sent, Cache: auth.NewCache(), Credential: credentials.Credential(store)}
	tag := ref.Reference
	if ref.Reference = ""; tag == latest {
		tag = ""
	}
	r := &registries.Repository{Client: client, Reference: ref, PlainHTTP: isLoopback(ref.Host())}
	return &repository{r, client}, tag, nil
}

// isLoopback reports whether a host, with or without a port, is this machine by docker's rule.
func isLoopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Open implements remote.Files. The file latest contains the name of the snapshot tagged latest.
func (r *repository) Open(ctx context.Context, name string) (remote.File, error) {
	layer, err := r.layer(ctx, strings.TrimSuffix(name, suffix))
	if err != nil {
		return nil, err
	}
	if name == latest {
		return inMemory{bytes.NewReader([]byte(layer.Annotations[ocispec.AnnotationTitle] + "\n"))}, nil
	}
	scheme := "https"
	if r.repo.PlainHTTP {
		scheme = "http"
	}
	ref := r.repo.Reference
	ctx = auth.AppendRepositoryScope(ctx, ref, auth.ActionPull)
	f, err := remote.OpenURL(ctx, r.client, &url.URL{Scheme: scheme, Host: ref.Host(),
		Path: "/v2/" + ref.Repository + "/blobs/" + layer.Digest.String()})
	switch _, notPinned := digest.Parse(name); {
	case err != nil:
		return nil, err
	case f.Size() != layer.Size:
		return nil, errors.Join(fmt.Errorf("the registry has %d bytes of it, and its manifest says %d", f.Size(), layer.Size),
			f.Close())
	case notPinned == nil:
		return verified(f, layer)
	}
	return f, nil
}

// verified copies a file to a temporary file, and fails unless the copy has the layer's digest. Without the copy, a
// later range request could return other contents.
func verified(f remote.File, layer ocispec.Descriptor) (_ remote.File, err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := layer.Digest.Validate(); err != nil {
		return nil, fmt.Errorf("the digest of its layer: %w", err)
	}
	copied, err := os.CreateTemp("", "larder-snapshot-*")
	if err != nil {
		return nil, err
	}
	to := pinnedFile{copied, layer.Size}
	verifier := layer.Digest.Verifier()
	_, err = io.Copy(io.MultiWriter(copied, verifier), io.NewSectionReader(f, 0, layer.Size))
	if err == nil && !verifier.Verified() {
		err = fmt.Errorf("the registry sent something other than %s", layer.Digest)
	}
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}

type pinnedFile struct {
	*os.File
	size int64
}

func (f pinnedFile) Size() int64 { return f.size }

func (f pinnedFile) Close() error { return errors.Join(f.File.Close(), os.Remove(f.Name())) }

// httpsOnly refuses requests without TLS, after a redirect or to a token server of the registry.
type httpsOnly struct{ http.RoundTripper }

func (h httpsOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" {
		return nil, fmt.Errorf("the registry leads from https to %s://%s", request.URL.Scheme, request.URL.Host)
	}
	return h.RoundTripper.RoundTrip(request)
}

type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }

func (r *repository) layer(ctx context.Context, tag string) (ocispec.Descriptor, error) {
	desc, body, err := r.repo.FetchReference(ctx, tag)
	if err != nil {
		return ocispec.Descriptor{}, plain(err)
	}
	defer func() { _ = body.Close() }()
	if desc.Size > maxManifest {
		return ocispec.Descriptor{}, errors.New("what is tagged so is no snapshot")
	}
	text, err := content.ReadAll(body, desc)
	if err != nil {
		return ocispec.Descriptor{}, plain(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(text, &m); err != nil || len(m.Layers) != 1 || m.Layers[0].MediaType != MediaType {
		return ocispec.Descriptor{}, fmt.Errorf("what is tagged %s is no snapshot: it has not one layer of the type %s", tag,
			MediaType)
	}
	return m.Layers[0], nil
}

// List leaves the sizes 0, because a list of tags does not have them.
func (r *repository) List(ctx context.Context) (all []remote.Info, err error) {
	err = r.repo.Tags(ctx, "", func(tags []string) error {
		for _, tag := range tags {
			all = append(all, remote.Info{Name: tag + suffix})
		}
		return nil
	})
	if err = plain(err); errors.Is(err, fs.ErrNotExist) { // 404: the repository does not exist before the first push
		return nil, nil
	}
	return all, err
}

// Put implements remote.Files. For the file latest it moves the tag latest to the snapshot named in the contents.
func (r *repository) Put(ctx context.Context, name string, in io.ReadSeeker) error {
	if name == latest {
		text, err := io.ReadAll(io.LimitReader(in, maxManifest))
		if err != nil {
			return err
		}
		desc, err := r.repo.Resolve(ctx, strings.TrimSuffix(strings.TrimSpace(string(text)), suffix))
		if err != nil {
			return plain(err)
		}
		return plain(r.repo.Tag(ctx, desc, latest))
	}
	layer, err := describe(in)
	if err != nil {
		return err
	}
	layer.Annotations = map[string]string{ocispec.AnnotationTitle: name}
	there, err := r.repo.Blobs().Exists(ctx, layer)
	if err == nil && !there {
		err = r.repo.Blobs().Push(ctx, layer, in)
	}
	if err != nil {
		return plain(err)
	}
	desc, err := oras.PackManifest(ctx, r.repo, oras.PackManifestVersion1_1, MediaType,
		oras.PackManifestOptions{Layers: []ocispec.Descriptor{layer}})
	if err != nil {
		return plain(err)
	}
	return plain(r.repo.Tag(ctx, desc, strings.TrimSuffix(name, suffix)))
}

// describe computes the OCI descriptor (size and digest) of a file, and seeks back to the file's beginning.
func describe(in io.ReadSeeker) (ocispec.Descriptor, error) {
	h := digest.Canonical.Digester()
	size, err := io.Copy(h.Hash(), in)
	if err == nil {
		_, err = in.Seek(0, io.SeekStart)
	}
	return ocispec.Descriptor{MediaType: MediaType, Digest: h.Digest(), Size: size}, err
}

func (r *repository) Remove(ctx context.Context, name string) error {
	desc, err := r.repo.Resolve(ctx, strings.TrimSuffix(name, suffix))
	if err != nil {
		return plain(err)
	}
	return plain(r.repo.Delete(ctx, desc))
}

// plain returns err without the URL of the request, and with fs.ErrNotExist for 404.
func plain(err error) error {
	if err == nil {
		return nil
	}
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	var answer *errcode.ErrorResponse
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound || errors.Is(err, errdef.ErrNotFound) {
		return fmt.Errorf("the registry has no such thing: %w", fs.ErrNotExist)
	}
	if answer != nil {
		text := fmt.Sprintf("the registry answered %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
		if answer.StatusCode == http.StatusUnauthorized {
			text += " (docker login " + answer.URL.Host + ")"
		}
		if len(answer.Errors) > 0 {
			return fmt.Errorf("%s: %w", text, answer.Errors)
		}
		return errors.New(text)
	}
	return err
}

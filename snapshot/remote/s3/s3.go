package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/larder-dev/larder/snapshot/remote"
)

// valid is the lifetime of a presigned URL, and so the maximum for which a snapshot can stay open. Credentials that
// expire earlier shorten it.
const valid = 12 * time.Hour

// part is the size of a part of a multipart upload, which is read into memory: the minimum that S3 allows.
const part = 5 << 20

// bucket implements remote.Files by the objects whose keys begin with a prefix, which is empty or ends in a slash.
type bucket struct {
	client       *minio.Client
	name, prefix string
}

// New returns the objects of a bucket whose keys begin with prefix as Files.
func New(client *minio.Client, name, prefix string) remote.Files {
	return &bucket{client, name, prefix}
}

// Scheme is the remote.Scheme of s3 URLs. It sends no request.
func Scheme(u *url.URL) (remote.Files, string, error) {
	if u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, "", errors.New(
			"it is s3://BUCKET/PREFIX/ or s3://BUCKET/PREFIX/FILE, and credentials are in the environment")
	}
	endpoint, secure, err := endpoint()
	if err != nil {
		return nil, "", err
	}
	region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if region == "" && endpoint != aws { // other servers than AWS ignore the region; setting one saves a request for it
		region = "us-east-1"
	}
	client, err := minio.New(endpoint, &minio.Options{
		Secure: secure, Region: region,
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
	})
	if err != nil {
		return nil, "", err
	}
	path := strings.TrimPrefix(u.Path, "/")
	at := strings.LastIndexByte(path, '/') + 1
	return New(client, u.Host, path[:at]), path[at:], nil
}

const aws = "s3.amazonaws.com"

func endpoint() (host string, secure bool, err error) {
	for _, name := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" {
			return "", false, fmt.Errorf("%s has to be https://HOST or http://HOST", name)
		}
		return u.Host, u.Scheme == "https", nil
	}
	return aws, true, nil
}

func (b *bucket) Open(ctx context.Context, name string) (remote.File, error) {
	u, err := b.client.PresignedGetObject(ctx, b.name, b.prefix+name, valid, nil)
	if err != nil {
		return nil, plain(err)
	}
	return remote.OpenURL(ctx, nil, u)
}

func (b *bucket) List(ctx context.Context) (all []remote.Info, err error) {
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix}) {
		if o.Err != nil {
			err = plain(o.Err) // a failed listing sends its error as the last element
			continue
		}
		all = append(all, remote.Info{Name: strings.TrimPrefix(o.Key, b.prefix), Size: o.Size})
	}
	return all, err
}

func (b *bucket) Put(ctx context.Context, name string, r io.ReadSeeker) error {
	size, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = b.client.PutObject(ctx, b.name, b.prefix+name, r, size, minio.PutObjectOptions{
		PartSize: part, ContentType: "application/octet-stream", CacheControl: remote.CacheControl(name)})
	return plain(err)
}

func (b *bucket) Remove(ctx context.Context, name string) error {
	return plain(b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
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
	if minio.ToErrorResponse(err).Code == "" && strings.Contains(err.Error(), "anonymous") {
		return errors.New("there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or have them in " +
			"~/.aws or by the role of the pod or machine; for a public bucket use https://")
	}
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	}
	return err
}

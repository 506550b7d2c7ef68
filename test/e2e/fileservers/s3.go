package fileservers

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3Server is a running S3 gateway with the parameters for clients. Buckets are addressed by path.
type S3Server struct {
	Endpoint  string // http://127.0.0.1:port
	Region    string
	AccessKey string
	SecretKey string
	Bucket    string
}

// S3 starts an S3 gateway with its data in dir, and creates the bucket "larder". An object is the file
// objects/BUCKET/KEY. Its attributes are in other files, because some file systems lack extended attributes.
func S3(t testing.TB, dir string) S3Server {
	t.Helper()
	objects, attributes := filepath.Join(dir, "objects"), filepath.Join(dir, "attributes")
	for _, d := range []string{objects, attributes} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := S3Server{Region: "us-east-1", AccessKey: "larder", SecretKey: "larder-e2e-secret", Bucket: "larder"}
	s.Endpoint = "http://" + server{
		name: "versitygw", ready: "/health",
		command: func(address string) (args, env []string) {
			args = []string{
				"--port", address, "--region", s.Region, "--health", "/health",
				"posix", "--sidecar", attributes, objects,
			}
			return args, []string{"ROOT_ACCESS_KEY_ID=" + s.AccessKey, "ROOT_SECRET_ACCESS_KEY=" + s.SecretKey}
		},
	}.start(t)
	s.makeBucket(t)
	return s
}

func (s S3Server) makeBucket(t testing.TB) {
	t.Helper()
	client := s.Client(t)
	exists, err := client.BucketExists(t.Context(), s.Bucket)
	if err == nil && !exists {
		err = client.MakeBucket(t.Context(), s.Bucket, minio.MakeBucketOptions{Region: s.Region})
	}
	if err != nil {
		t.Fatalf("making the bucket: %v", err)
	}
}

// Client returns a client with all rights. The client's connections are closed when the test ends.
func (s S3Server) Client(t testing.TB) *minio.Client {
	t.Helper()
	endpoint, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := minio.DefaultTransport(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""),
		Region: s.Region, BucketLookup: minio.BucketLookupPath, Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

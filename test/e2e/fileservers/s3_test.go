package fileservers_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/larder-dev/larder/test/e2e/fileservers"
)

const key = "seeds/pods"

// TestS3 checks that an object can be stored, read in full, in part and by a presigned URL, listed, and deleted. A
// conditional put must not overwrite the object, and another server on the same directory must have it.
func TestS3(t *testing.T) {
	dir := t.TempDir()
	t.Run("put", func(t *testing.T) {
		s := fileservers.S3(t, dir)
		c := s.Client(t)
		put(t, c, s.Bucket)
		if got := get(t, c, s.Bucket, 0, 0); got != text {
			t.Errorf("GET: %q", got)
		}
		if got := get(t, c, s.Bucket, 5, 13); got != text[5:14] {
			t.Errorf("GET of a range: %q", got)
		}
		if file, err := os.ReadFile(filepath.Join(dir, "objects", s.Bucket, key)); err != nil || string(file) != text {
			t.Errorf("the file has %q, %v", file, err)
		}
		presigned(t, c, s.Bucket)
	})
	t.Run("another server", func(t *testing.T) {
		s := fileservers.S3(t, dir)
		c := s.Client(t)
		var listed []string
		for object := range c.ListObjectsIter(t.Context(), s.Bucket, minio.ListObjectsOptions{
			Prefix: "seeds/", Recursive: true,
		}) {
			if object.Err != nil {
				t.Fatal(object.Err)
			}
			listed = append(listed, object.Key)
		}
		if len(listed) != 1 || listed[0] != key {
			t.Errorf("the bucket has %q", listed)
		}
		once(t, c, s.Bucket)
		if err := c.RemoveObject(t.Context(), s.Bucket, key, minio.RemoveObjectOptions{}); err != nil {
			t.Error(err)
		}
		_, err := c.StatObject(t.Context(), s.Bucket, key, minio.StatObjectOptions{})
		if answer := minio.ToErrorResponse(err); answer.Code != minio.NoSuchKey {
			t.Errorf("HEAD after DELETE: %v", err)
		}
	})
}

func put(t *testing.T, c *minio.Client, bucket string) {
	t.Helper()
	o := minio.PutObjectOptions{ContentType: "application/octet-stream"}
	_, err := c.PutObject(t.Context(), bucket, key, strings.NewReader(text), int64(len(text)), o)
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, c *minio.Client, bucket string, from, to int64) string {
	t.Helper()
	var o minio.GetObjectOptions
	if to > 0 {
		if err := o.SetRange(from, to); err != nil {
			t.Fatal(err)
		}
	}
	object, err := c.GetObject(t.Context(), bucket, key, o)
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	got, err := io.ReadAll(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// presigned reads the test's object with net/http through a URL signed by minio-go. Without the signature the read must
// fail.
func presigned(t *testing.T, c *minio.Client, bucket string) {
	t.Helper()
	link, err := c.PresignedGetObject(t.Context(), bucket, key, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	part := map[string]string{"Range": "bytes=5-13"}
	answer, body := send(t, account{}, http.MethodGet, link.String(), nil, part)
	if answer.StatusCode != http.StatusPartialContent || body != text[5:14] {
		t.Errorf("GET of a range by a link: %s, %q", answer.Status, body)
	}
	link.RawQuery = ""
	answer, _ = send(t, account{}, http.MethodGet, link.String(), nil, part)
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("GET without a signature: %s", answer.Status)
	}
}

// once checks conditional puts: with If-None-Match: * an existing object is unchanged, and a missing object is stored.
func once(t *testing.T, c *minio.Client, bucket string) {
	t.Helper()
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	_, err := c.PutObject(t.Context(), bucket, key, strings.NewReader("other"), 5, o)
	if answer := minio.ToErrorResponse(err); answer.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("PUT with If-None-Match: * of an object that is there: %v, want a 412", err)
	}
	if got := get(t, c, bucket, 0, 0); got != text {
		t.Errorf("GET after a PUT with If-None-Match: *: %q", got)
	}
	if _, err := c.PutObject(t.Context(), bucket, "other", strings.NewReader("other"), 5, o); err != nil {
		t.Errorf("PUT with If-None-Match: * of an object that is not there: %v", err)
	}
}

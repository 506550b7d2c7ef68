package fakeapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestLongListsAreCompressed(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 2000)
	zipped := http.Header{"Accept-Encoding": {"gzip"}}
	for _, c := range []struct {
		path   string
		header http.Header
		want   bool
	}{
		{"/api/v1/pods", zipped, true},
		{"/api/v1/pods", nil, false},
		{"/api/v1/pods?limit=10", zipped, false},
		{"/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1", zipped, false},
	} {
		response, body := get(t, s, c.path, c.header)
		if got := response.Header.Get("Content-Encoding") == "gzip"; got != c.want {
			t.Errorf("%s with %v: compressed is %v", c.path, c.header, got)
			continue
		}
		if !c.want {
			continue
		}
		reader, err := gzip.NewReader(bytes.NewReader(body))
		must(t, err)
		plain, err := io.ReadAll(reader)
		must(t, err)
		var list corev1.PodList
		must(t, json.Unmarshal(plain, &list))
		if len(list.Items) != 2000 || len(plain) < 4*len(body) {
			t.Errorf("%d items, %d bytes became %d", len(list.Items), len(plain), len(body))
		}
	}
}

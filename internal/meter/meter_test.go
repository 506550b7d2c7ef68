package meter

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCountBodies checks that responses are requested compressed, counted in compressed form, and decompressed. Bodies
// that are not compressed, or whose compression the caller requested, must not be changed.
func TestCountBodies(t *testing.T) {
	text := strings.Repeat("what the server has ", 1000)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/zipped" && r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped.Bytes())
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	for name, c := range map[string]struct {
		path, accept string
		want         string
		counted      int
	}{
		"compressed":          {"/zipped", "", text, zipped.Len()},
		"not compressed":      {"/", "", text, len(text)},
		"the caller unpacks":  {"/zipped", "gzip", zipped.String(), zipped.Len()},
		"nothing to compress": {"/zipped", "identity", text, len(text)},
	} {
		t.Run(name, func(t *testing.T) {
			var r Received
			client := &http.Client{Transport: r.CountBodies(http.DefaultTransport)}
			defer client.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.accept != "" {
				req.Header.Set("Accept-Encoding", c.accept)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			if err != nil || string(body) != c.want || r.Bytes() != int64(c.counted) {
				t.Errorf("%d bytes, %v; counted %d, want %d and %d", len(body), err, r.Bytes(), len(c.want), c.counted)
			}
			if c.accept == "" && resp.Header.Get("Content-Encoding") != "" {
				t.Error("the answer says that it is compressed")
			}
		})
	}
}

func TestBrokenCompression(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "no gzip at all")
	}))
	defer server.Close()
	var r Received
	client := &http.Client{Transport: r.CountBodies(http.DefaultTransport)}
	defer client.CloseIdleConnections()
	resp, err := client.Get(server.URL) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 2 {
		if _, err := resp.Body.Read(make([]byte, 10)); err == nil || err == io.EOF {
			t.Errorf("read: %v", err)
		}
	}
}

package facts_test

import (
	"context"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/facts"
)

type hostileDocument []byte

func (d hostileDocument) Documents(context.Context) ([]string, error)      { return nil, nil }
func (d hostileDocument) Document(context.Context, string) ([]byte, error) { return d, nil }

// TestSchemaOutOfProportion cites issue 37: decompressing a schema of 762 bytes took 256 MB.
func TestSchemaOutOfProportion(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	gv := schema.GroupVersion{Version: "v1"}
	for size, refused := range map[int]bool{1 << 19: false, 8 << 20: true, 64 << 20: true} {
		d := hostileDocument(w.EncodeAll([]byte(`"`+strings.Repeat("x", size)+`"`), []byte("hash\n")))
		text, _, err := facts.OpenAPI(t.Context(), d, gv, nil)
		if (err != nil) != refused || !refused && len(text) != size+2 {
			t.Errorf("%d bytes of a document of %d: %d, %v", size, len(d), len(text), err)
		}
	}
	d := hostileDocument(`{"version":2,"groups":[` + strings.Repeat("{},", 1<<20) + `{}]}`)
	if _, err := facts.ReadDiscovery(t.Context(), d); err == nil || !strings.Contains(err.Error(), "takes about") {
		t.Error(err)
	}
}

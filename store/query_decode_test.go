package store_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

type decodeCounter struct {
	codec.Codec
	decoded int
}

func (c *decodeCounter) Decode(data []byte) (runtime.Object, error) {
	c.decoded++
	return c.Codec.Decode(data)
}

func TestEachDecodesNoMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, store.Options{})
	codec := &decodeCounter{Codec: storetest.PodCodec()}
	c := queryCollection(t, s, store.CollectionOptions{Codec: codec, Residency: store.None}, asTyped)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	codec.decoded = 0
	n := 0
	err := c.Each(t.Context(), query.Query{Namespace: "a", Limit: 2}, func(string, runtime.Object) error {
		n++
		return nil
	})
	if err != nil || n != 2 || codec.decoded != 2 {
		t.Errorf("%d objects, of which %d were decoded, %v; want 2 of each", n, codec.decoded, err)
	}
}

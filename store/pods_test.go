package store

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
)

func mustCodec(t testing.TB, example runtime.Object) codec.Codec {
	t.Helper()
	c, err := codec.For(example)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

package store

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

func pods() entry.Identity {
	return entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func mustCodec(t testing.TB, example runtime.Object) codec.Codec {
	t.Helper()
	c, err := codec.For(example)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

package store

import (
	"bytes"
	"encoding/binary"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/store/internal/format"
)

func mustCodec(t testing.TB, example runtime.Object) codec.Codec {
	t.Helper()
	c, err := codec.For(example)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// resum writes the checksum that makes bytes pass as a record.
func resum(collection, key string, data []byte) []byte {
	data = bytes.Clone(data)
	if len(data) >= format.RecordFixed {
		binary.BigEndian.PutUint32(data[1:], format.Sum(collection, key, data))
	}
	return data
}

// someRecord is a record with that header.
func someRecord(h format.Header) []byte {
	h.UID, h.RV, h.Seq, h.Encoding = "uid", "12", 7, "msgpack"
	return format.AppendRecord(nil, "collection", "ns/name", h, []byte("a payload"))
}

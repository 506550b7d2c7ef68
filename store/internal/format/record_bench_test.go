package format

import (
	"testing"

	"github.com/larder-dev/larder/codec"
)

func BenchmarkRecord(b *testing.B) {
	h := Header{
		UID: "0f6a3c52-6c5e-4b0e-9f5d-0b8b3f0f9a11", RV: "184467", Seq: 184467, Encoding: codec.EncodingProtobuf,
		Terms: map[string][]string{"namespace": {"shop"}},
	}
	const collection, key = "6c691bf7459bb04f8ec4", "shop/web-7d4b9c6f5d-x2x9k"
	payload := make([]byte, 3000)
	data := AppendRecord(nil, collection, key, h, payload)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, len(data))
		for b.Loop() {
			AppendRecord(buf, collection, key, h, payload)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := ParseRecord(collection, key, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("payload", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := ParsePayload(collection, key, data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

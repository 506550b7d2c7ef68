package format_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/format"
)

// TestEveryDamagedByteOfTheChangelog checks that every changed or missing byte of a tombstone, cursor or document is an
// ErrDamaged, and that the error names the collection and the key.
func TestEveryDamagedByteOfTheChangelog(t *testing.T) {
	const collection = "6c691bf7459bb04f8ec4"
	stone := format.Tombstone{At: time.Unix(1_800_000_000, 0), Key: "shop/pod-1",
		Header: format.Header{UID: "u-1", RV: "17", Seq: 9, Encoding: "protobuf"}, Payload: []byte("the last state")}
	cursor, err := format.AppendCursor(nil, collection, "shipper",
		consumer.Position{Seq: 9, Failing: map[string]uint64{"shop/pod-1": 7}, Replaying: true, After: "shop/pod-0",
			Notified: true,
			Why:      consumer.ResetBehind})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		data  []byte
		parse func(data []byte) error
		key   string
	}{
		"tombstone": {stone.Append(func(dst, _ []byte, key string, h format.Header, payload []byte) []byte {
			return format.AppendRecord(dst, collection, key, h, payload)
		}), func(data []byte) error {
			_, err := format.ParseTombstone(collection, 9, data)
			return err
		}, "9"},
		"cursor": {cursor, func(data []byte) error {
			_, err := format.ParseCursor(collection, "shipper", data)
			return err
		}, "shipper"},
		"document": {format.AppendDocument(nil, "discovery", []byte("groups")), func(data []byte) error {
			_, err := format.ParseDocument("discovery", data)
			return err
		}, "discovery"},
	} {
		if err := test.parse(test.data); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		bad := func(data []byte) {
			t.Helper()
			err := test.parse(data)
			if !errors.Is(err, entry.ErrDamaged) || !strings.Contains(err.Error(), test.key) || name != "document" &&
				!strings.Contains(err.Error(), collection) {
				t.Errorf("%s %x: %v", name, data, err)
			}
		}
		for i := range test.data {
			for _, change := range []byte{1, 0x80, 0xff} {
				data := bytes.Clone(test.data)
				data[i] ^= change
				bad(data)
			}
			bad(test.data[:i])
		}
	}
}

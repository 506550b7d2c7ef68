package format

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/consumer"
)

// cursor is the stored form of a consumer.Position: the payload of a record under the cursor's name.
type cursor struct {
	Seq       uint64               `msgpack:"seq"`
	Failing   map[string]uint64    `msgpack:"failing,omitempty"`
	Replaying bool                 `msgpack:"replaying,omitempty"`
	After     string               `msgpack:"after,omitempty"`
	Notified  bool                 `msgpack:"told,omitempty"`
	Why       consumer.ResetReason `msgpack:"why,omitempty"`
	Types     string               `msgpack:"types,omitempty"`
}

// cursorKey returns the key that the checksum of a cursor covers.
func cursorKey(name string) string { return string(BucketCursors) + "/" + name }

func AppendCursor(dst []byte, collection, name string, at consumer.Position) ([]byte, error) {
	c := cursor(at)
	payload, err := msgpack.Marshal(&c)
	if err != nil {
		return dst, fmt.Errorf("cursor of handler %q: %w", name, err)
	}
	return AppendRecord(dst, collection, cursorKey(name), Header{Encoding: "place"}, payload), nil
}

func ParseCursor(collection, name string, data []byte) (at consumer.Position, err error) {
	_, payload, err := ParseRecord(collection, cursorKey(name), data)
	if err != nil {
		return at, err
	}
	var c cursor
	if err := msgpack.Unmarshal(payload, &c); err != nil {
		return at, fmt.Errorf("cursor of handler %q in collection %s: %w: %w", name, collection, err, entry.ErrDamaged)
	}
	return consumer.Position(c), nil
}

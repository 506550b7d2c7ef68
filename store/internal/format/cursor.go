package format

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/larder-dev/larder/entry"
)

// Cursor is how far a consumer of the changelog has come: the payload of a record under its name.
type Cursor struct {
	Seq       uint64            `msgpack:"seq"`
	Failing   map[string]uint64 `msgpack:"failing,omitempty"`
	Replaying bool              `msgpack:"replaying,omitempty"`
	After     string            `msgpack:"after,omitempty"`
	Told      bool              `msgpack:"told,omitempty"`
	Why       string            `msgpack:"why,omitempty"`
}

// cursorPlace is the key that the checksum of a cursor covers.
func cursorPlace(name string) string { return string(BucketCursors) + "/" + name }

// AppendCursor appends the record of the cursor to dst.
func AppendCursor(dst []byte, collection, name string, c *Cursor) ([]byte, error) {
	payload, err := msgpack.Marshal(c)
	if err != nil {
		return dst, fmt.Errorf("cursor of handler %q: %w", name, err)
	}
	return AppendRecord(dst, collection, cursorPlace(name), Header{Encoding: "place"}, payload), nil
}

// ParseCursor is the reverse of AppendCursor. Its errors wrap ErrDamaged.
func ParseCursor(collection, name string, data []byte) (c Cursor, err error) {
	_, payload, err := ParseRecord(collection, cursorPlace(name), data)
	if err != nil {
		return c, err
	}
	if err := msgpack.Unmarshal(payload, &c); err != nil {
		return c, fmt.Errorf("cursor of handler %q in collection %s: %w: %w", name, collection, err, entry.ErrDamaged)
	}
	return c, nil
}

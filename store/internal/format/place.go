package format

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/larder-dev/larder/entry"
)

// Place is how far a durable handler has come: the payload of a record under its name.
type Place struct {
	Seq       uint64            `msgpack:"seq"`
	Failing   map[string]uint64 `msgpack:"failing,omitempty"`
	Replaying bool              `msgpack:"replaying,omitempty"`
	After     string            `msgpack:"after,omitempty"`
	Told      bool              `msgpack:"told,omitempty"`
	Why       string            `msgpack:"why,omitempty"`
}

// ResetDamage is Place.Why of a handler that begins anew because the file was damaged.
const ResetDamage = "damage"

// handlerPlace is the key that the checksum of a place covers.
func handlerPlace(name string) string { return string(BucketHandlers) + "/" + name }

// AppendPlace appends the record of the handler to dst.
func AppendPlace(dst []byte, collection, name string, r *Place) ([]byte, error) {
	payload, err := msgpack.Marshal(r)
	if err != nil {
		return dst, fmt.Errorf("place of handler %q: %w", name, err)
	}
	return AppendRecord(dst, collection, handlerPlace(name), Header{Encoding: "place"}, payload), nil
}

// ParsePlace is the reverse of appendPlace. Its errors wrap ErrDamaged.
func ParsePlace(collection, name string, data []byte) (r Place, err error) {
	_, payload, err := ParseRecord(collection, handlerPlace(name), data)
	if err != nil {
		return r, err
	}
	if err := msgpack.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("place of handler %q in collection %s: %w: %w", name, collection, err, entry.ErrDamaged)
	}
	return r, nil
}

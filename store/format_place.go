package store

import (
	"fmt"

	"github.com/larder-dev/larder/entry"
	"github.com/vmihailenco/msgpack/v5"
)

// placeRecord is how far a durable handler has come: the payload of a record under its name.
type placeRecord struct {
	Seq       uint64            `msgpack:"seq"`
	Failing   map[string]uint64 `msgpack:"failing,omitempty"`
	Replaying bool              `msgpack:"replaying,omitempty"`
	After     string            `msgpack:"after,omitempty"`
	Told      bool              `msgpack:"told,omitempty"`
	Why       string            `msgpack:"why,omitempty"`
}

// handlerPlace is the key that the checksum of a place covers.
func handlerPlace(name string) string { return string(bucketHandlers) + "/" + name }

// appendPlace appends the record of the handler to dst.
func appendPlace(dst []byte, collection, name string, r *placeRecord) ([]byte, error) {
	payload, err := msgpack.Marshal(r)
	if err != nil {
		return dst, fmt.Errorf("place of handler %q: %w", name, err)
	}
	return appendRecord(dst, collection, handlerPlace(name), header{Encoding: "place"}, payload), nil
}

// parsePlaceRecord is the reverse of appendPlace. Its errors wrap ErrDamaged.
func parsePlaceRecord(collection, name string, data []byte) (r placeRecord, err error) {
	_, payload, err := parseRecord(collection, handlerPlace(name), data)
	if err != nil {
		return r, err
	}
	if err := msgpack.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("place of handler %q in collection %s: %w: %w", name, collection, err, entry.ErrDamaged)
	}
	return r, nil
}

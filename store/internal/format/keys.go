package format

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/larder-dev/larder/entry"
)

type DataKey struct {
	ID      uint64 `msgpack:"id"`
	Key     string `msgpack:"key"` // id of the provider's key that wrapped this data key
	Wrapped []byte `msgpack:"wrapped"`
	Check   []byte `msgpack:"check"`
	Created int64  `msgpack:"created"` // Unix time in seconds
}

// dataKeys is the payload of the record under KeyKeys. Fields that a later program adds are ignored.
type dataKeys struct {
	Keys []DataKey `msgpack:"keys"` // oldest first
}

func AppendKeys(dst []byte, keys []DataKey) ([]byte, error) {
	payload, err := msgpack.Marshal(&dataKeys{keys})
	if err != nil {
		return nil, fmt.Errorf("the record of the data keys: %w", err)
	}
	return AppendRecord(dst, string(BucketLarder), string(KeyKeys), Header{Encoding: "keys"}, payload), nil
}

// ParseKeys returns the data keys of a file. Nil data, without keys, means that nothing was ever sealed in the file. It
// fails with entry.ErrIncompatible if a newer program wrote the record.
func ParseKeys(data []byte) ([]DataKey, error) {
	if data == nil {
		return nil, nil
	}
	h, payload, err := ParseRecord(string(BucketLarder), string(KeyKeys), data)
	if err != nil {
		return nil, fmt.Errorf("the record of the data keys: %w", err)
	}
	if h.Unknown != 0 {
		return nil,
			fmt.Errorf(
				"the record of the data keys is of version %d, which a newer program has written; nothing was changed: use that "+
					"program: %w", h.Unknown, entry.ErrIncompatible)
	}
	var r dataKeys
	if err := msgpack.Unmarshal(payload, &r); err != nil {
		return nil, fmt.Errorf("the record of the data keys: %w: %w", err, entry.ErrDamaged)
	}
	return r.Keys, nil
}

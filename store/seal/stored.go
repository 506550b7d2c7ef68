package seal

import "github.com/larder-dev/larder/store/internal/format"

// AppendKeys appends the record of a file's data keys, the oldest first, to dst. It returns nil if there are no keys.
func AppendKeys(dst []byte, all ...*DataKey) ([]byte, error) {
	if len(all) == 0 {
		return nil, nil
	}
	keys := make([]format.DataKey, len(all))
	for i, k := range all {
		keys[i] = format.DataKey{ID: k.ID, Key: k.Wrapper, Wrapped: k.Wrapped, Check: k.Check, Created: k.Created.Unix()}
	}
	return format.AppendKeys(dst, keys)
}

package changelog

import (
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/format"
)

// low returns the sequence number up to which the consumer of a cursor no longer needs the changelog.
func low(c consumer.Position) uint64 {
	low := c.Seq
	for _, seq := range c.Failing {
		low = min(low, seq-1)
	}
	return low
}

// Anew returns the cursor of a reset consumer: it receives every object, then the changes after now.
func (s *State) Anew(why consumer.ResetReason) consumer.Position {
	return consumer.Position{Seq: s.Last(), Replaying: true, Why: why}
}

func PutCursor(cursors *bolt.Bucket, collection, name string, c consumer.Position) error {
	data, err := format.AppendCursor(nil, collection, name, c)
	if err != nil {
		return err
	}
	return cursors.Put([]byte(name), data)
}

// ReadCursors returns the cursors of a collection. For damaged cursors it returns an error and reset cursors.
func ReadCursors(b *bolt.Bucket, collection string, st State) (map[string]consumer.Position, error) {
	all := map[string]consumer.Position{}
	cursors := b.Bucket(format.BucketCursors)
	if cursors == nil {
		return all, nil
	}
	var bad error
	err := cursors.ForEach(func(name, data []byte) error {
		c, err := format.ParseCursor(collection, string(name), data)
		if err != nil {
			bad, c = errors.Join(bad, err), st.Anew(consumer.ResetDamage)
		}
		all[string(name)] = c
		return nil
	})
	return all, errors.Join(err, bad)
}

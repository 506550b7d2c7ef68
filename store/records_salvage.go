package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// maxSalvageLost is how many keys Salvaged names.
const maxSalvageLost = 1000

// Salvaged is what Salvage has found.
type Salvaged struct {
	// Records were read, and Lost were not, of which the first 1,000 are named in Damaged.
	Records int
	Lost    int
	Damaged []string
	// Gap is why records are missing of which not even the keys can be read, since a page makes no sense; nil if there is no such page.
	Gap error
}

// Whole reports whether nothing is missing.
func (v Salvaged) Whole() bool { return v.Lost == 0 && v.Gap == nil }

// Salvage is Records for a file that is damaged: it calls fn for every record that can be read, in the same order, and says what is missing. Where pages make no sense it goes
// on with the first key that can be found from the end. Its error is one of fn, of ctx, or of a collection of which nothing can be read; ErrSealed if the store was opened without the keys: then nothing is
// damaged.
func (s *Store) Salvage(ctx context.Context, id Identity, fn func(Record) error) (found Salvaged, err error) {
	id, err = id.Canonical()
	if err != nil {
		return found, err
	}
	r := &reader{store: s, name: id.ID()}
	key, inclusive := "", false
	for more := true; more; {
		p := r.recordPage(ctx, key, inclusive)
		if key, err = found.take(ctx, key, p.records, fn); err != nil {
			return found, err
		}
		if inclusive, more = false, p.more; p.err == nil {
			continue
		}
		if !errors.Is(p.err, ErrDamaged) {
			return found, fmt.Errorf("read %s: %w", id, p.err)
		}
		if found.Gap != nil {
			return found, nil //nolint:nilerr // the second gap: what is behind it is not looked for
		}
		found.Gap = p.err
		if key, err = r.firstBehindGap(ctx, key); err != nil {
			return found, fmt.Errorf("read %s: %w", id, err)
		}
		inclusive, more = true, key != ""
	}
	return found, ctx.Err()
}

// take gives the records of a page to fn, and returns the last key.
func (v *Salvaged) take(ctx context.Context, key string, records []storedRecord, fn func(Record) error) (last string, err error) {
	for _, record := range records {
		if err := ctx.Err(); err != nil {
			return key, err
		}
		key = record.Key
		if errors.Is(record.err, ErrSealed) { // and so are all
			return key, record.err
		}
		if record.err != nil {
			v.lose(key)
			continue
		}
		if err := fn(record.Record); err != nil {
			return key, err
		}
		v.Records++
	}
	return key, nil
}

func (v *Salvaged) lose(key string) {
	if v.Lost++; len(v.Damaged) < maxSalvageLost {
		v.Damaged = append(v.Damaged, key)
	}
}

// firstBehindGap returns the key after which, and after the given one, all can be read up to the end: as far as it comes from there. It is empty if there is none.
func (r *reader) firstBehindGap(ctx context.Context, after string) (key string, err error) {
	err = r.view(ctx, func(b *bolt.Bucket) error {
		objects, err := r.objects(b)
		if err != nil {
			return err
		}
		c := objects.Cursor()
		for k, _ := c.Last(); k != nil && string(k) > after; k, _ = c.Prev() {
			if key != "" && string(k) >= key {
				return nil // out of order
			}
			key = string(k)
		}
		return nil
	})
	if errors.Is(err, ErrDamaged) {
		err = nil // as far as it comes
	}
	return key, err
}

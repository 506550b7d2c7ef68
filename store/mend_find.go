package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// What Mend repairs of one collection: so many records, and so many entries of indexes and the change feed. More than that is no single
// fault, and Rebuild copies what is good.
const (
	mendRecords = 1000
	mendEntries = 10_000
)

// damage is what a checker has found in one collection that can be repaired record by record and entry by entry. Its methods do
// nothing on nil.
type damage struct {
	name    string
	rebuild bool // it takes Rebuild
	// counted is how many records there are, expected how many the info record says.
	counted, expected int
	// bad are records that can not be read, holes the keys that something names and that have none.
	bad, holes map[string]bool
	// wrong are entries that are to go, by index, and lacking those that are to be made.
	wrong, lacking map[string][]indexFix
	// numbers are the changes to be made to the change feed.
	numbers []numberFix
	fixes   int
}

// indexFix is an entry of an index: as it is stored, or as it should be.
type indexFix struct {
	raw        []byte
	value, key string
}

// numberFix is an entry of the change feed; key is empty if it is to go.
type numberFix struct {
	number []byte
	key    string
}

func newDamage(name string) *damage {
	return &damage{name: name, bad: map[string]bool{}, holes: map[string]bool{}, wrong: map[string][]indexFix{}, lacking: map[string][]indexFix{}}
}

func (d *damage) takesRebuild() {
	if d != nil {
		d.rebuild = true
	}
}

func (d *damage) count(counted int, st state) {
	if d != nil {
		d.counted, d.expected = counted, st.Objects
	}
}

func (d *damage) badRecord(key string) {
	if d != nil {
		d.bad[key] = true
		d.rebuild = d.rebuild || len(d.bad) > mendRecords
	}
}

// isBad reports whether the record of that key is to go.
func (d *damage) isBad(key string) bool { return d != nil && d.bad[key] }

func (d *damage) hole(key string) {
	if d != nil {
		d.holes[key] = true
		d.rebuild = d.rebuild || len(d.holes) > mendRecords
	}
}

func (d *damage) fix() {
	d.fixes++
	d.rebuild = d.rebuild || d.fixes > mendEntries
}

func (d *damage) wrongEntry(index string, raw []byte) {
	if d != nil {
		d.wrong[index] = append(d.wrong[index], indexFix{raw: bytes.Clone(raw)})
		d.fix()
	}
}

func (d *damage) lacksEntry(index, value, key string) {
	if d != nil {
		d.lacking[index] = append(d.lacking[index], indexFix{value: value, key: key})
		d.fix()
	}
}

func (d *damage) wrongNumber(number []byte) {
	if d != nil {
		d.numbers = append(d.numbers, numberFix{number: bytes.Clone(number)})
		d.fix()
	}
}

func (d *damage) lacksNumber(number uint64, key string) {
	if d != nil {
		d.numbers = append(d.numbers, numberFix{number: seqKey(number), key: key})
		d.fix()
	}
}

// missing are the keys of which there is no record, or no good one, in order.
func (d *damage) missing() []string {
	all := maps.Clone(d.bad)
	maps.Copy(all, d.holes)
	return slices.Sorted(maps.Keys(all))
}

// unknown is how many records are missing that nothing names.
func (d *damage) unknown() int { return max(0, d.expected-d.counted-len(d.holes)) }

// indexes are those that are repaired, in order.
func (d *damage) indexes() []string {
	all := map[string]bool{}
	for name := range d.wrong {
		all[name] = true
	}
	for name := range d.lacking {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// findDamage looks at what every collection holds. It is for who has the writer's place.
func (s *Store) findDamage(ctx context.Context) (all []*damage, err error) {
	var names []string
	err = s.view(ctx, func(tx *bolt.Tx) error {
		return tx.Bucket(bucketLarder).ForEachBucket(func(name []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		d := newDamage(name)
		var r Report
		c := &checker{reader: reader{store: s, name: name}, report: &r, lacks: map[uint64]bool{}, damage: d}
		if err = c.check(ctx); err != nil {
			return nil, err
		}
		if d.rebuild {
			return nil, fmt.Errorf("%w: %s", ErrDamaged, r.Problems[0])
		}
		if len(r.Problems) > 0 {
			all = append(all, d)
		}
	}
	return all, err
}

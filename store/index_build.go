package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// A page of a build ends at whichever bound it reaches first. It is read in one transaction and written in another.
const (
	buildRecords = 1000
	buildBytes   = iterateBytes
)

// A build that fails, for lack of space for example, is retried after buildRetry, which doubles up to buildRetryMax.
const (
	buildRetry    = time.Second
	buildRetryMax = time.Minute
)

// builds runs the background goroutines of a collection. The zero value is ready to use.
type builds struct {
	mu      sync.Mutex
	stopped bool           // guarded by mu
	cancels map[int]func() // cancel functions of the running goroutines; guarded by mu
	started int            // number of goroutines started, and the next key of cancels; guarded by mu
	running sync.WaitGroup
}

// stop cancels the goroutines and waits for them. It returns false if it was called before.
func (b *builds) stop() bool {
	b.mu.Lock()
	first := !b.stopped
	b.stopped = true
	for _, cancel := range b.cancels {
		cancel()
	}
	b.mu.Unlock()
	b.running.Wait()
	return first
}

// startBuild starts a goroutine that builds the indexes that are not ready, unless one is running.
func (c *Collection) startBuild() {
	if !c.readOnly && c.indexing.want(c.set.Load().building()) {
		c.builds.start(c.store, "build indexes of "+c.id.String(), c.buildIndexes)
	}
}

// start calls fn in a goroutine. stop and Store.Close cancel its context and wait for it. After stop it calls fn
// directly, with a cancelled context.
func (b *builds) start(s *Store, name string, fn func(ctx context.Context)) {
	b.mu.Lock()
	stopped := b.stopped
	if !stopped {
		b.startLocked(s, name, fn)
	}
	b.mu.Unlock()
	if stopped {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		fn(ctx)
	}
}

func (b *builds) ended(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.cancels, n)
}

func (b *builds) startLocked(s *Store, name string, fn func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	if b.cancels == nil {
		b.cancels = map[int]func(){}
	}
	n := b.started
	b.started++
	b.cancels[n] = cancel
	b.running.Add(1)
	s.goBackground(name, func(storeCtx context.Context) {
		defer b.running.Done()
		defer b.ended(n)
		defer cancel()
		defer context.AfterFunc(storeCtx, cancel)()
		fn(ctx)
	})
}

// buildIndexes builds the indexes that are not ready in one pass, and indexes that are added meanwhile in the next. It
// retries after an error that may be temporary.
func (c *Collection) buildIndexes(ctx context.Context) {
	retry := buildRetry
	for {
		names := c.indexing.next(c.set.Load().ready)
		if len(names) == 0 {
			return
		}
		log := c.store.logger().WithValues("collection", c.id.String(), "indexes", names)
		err := ctx.Err()
		if err == nil {
			err = c.build(ctx, names, func(key string, err error) {
				log.Error(err, "An object is not in the index: the index function failed", "key", key)
			})
		}
		switch {
		case err == nil:
			retry = buildRetry
			continue
		case ctx.Err() != nil:
			c.indexing.failed(ErrClosed, false)
			return
		case errors.Is(err, entry.ErrDamaged), errors.Is(err, ErrOutcomeUnknown), errors.Is(err, ErrNoCollection),
			errors.Is(err, ErrClosed):
			log.Error(err, "Indexes are not built; look-ups in them fail")
			c.indexing.failed(err, false)
			return
		}
		log.Error(err, "Building indexes failed, will try again", "after", retry)
		c.indexing.failed(err, true)
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
		retry = min(2*retry, buildRetryMax)
	}
}

// build gives every record its terms in the named indexes and then marks the
// indexes ready. It skips records that are written meanwhile: the writer
// gives them their terms.
func (c *Collection) build(ctx context.Context, names []string, report func(key string, err error)) error {
	for key, more := "", true; more; {
		var records []buildRecord
		var err error
		if records, more, err = c.buildRead(ctx, key); err != nil {
			return err
		}
		if len(records) == 0 {
			break
		}
		key = records[len(records)-1].key
		if records, err = c.buildTerms(records, names, report); err != nil {
			return err
		}
		if len(records) == 0 {
			continue
		}
		if err := c.buildWrite(ctx, names, records); err != nil {
			return err
		}
	}
	return c.buildFinish(ctx, names)
}

// buildRecord is a record as a build found it, and what its terms must be.
type buildRecord struct {
	rawRecord
	lacks bool                // an index lacks an entry for a term in the record's header
	want  map[string][]string // terms in the named indexes
}

// buildRead copies the records of the page that follows the key from. more is true if there may be further records.
func (c *Collection) buildRead(ctx context.Context, from string) (records []buildRecord, more bool, err error) {
	err = c.view(ctx, func(b *bolt.Bucket) error {
		objects, err := c.objects(b)
		if err != nil {
			return err
		}
		size := 0
		s := boltfile.ScanAfter(objects, from)
		for k, data := s.Next(); k != nil; k, data = s.Next() {
			if len(records) == buildRecords || size >= buildBytes {
				more = true
				return nil
			}
			record, err := c.copyRecord(objects, string(k), data, nil)
			if err != nil {
				return err
			}
			stored, err := c.stored(objects, record.key)
			if err != nil {
				return err
			}
			records = append(records, buildRecord{rawRecord: record,
				lacks: lacksEntries(b.Bucket(format.BucketIndex), record.key, stored.Terms)})
			size += record.body.size
		}
		return s.Err
	})
	return records, more, err
}

// lacksEntries reports whether an index lacks an entry for one of the terms.
func lacksEntries(indexes *bolt.Bucket, key string, terms map[string][]string) bool {
	for name, values := range terms {
		index := indexes.Bucket([]byte(name))
		for _, value := range values {
			if index != nil && !hasEntry(index, value, key) {
				return true
			}
		}
	}
	return false
}

func hasEntry(index *bolt.Bucket, value, key string) bool {
	want := format.IndexKey(value, key)
	k, _ := index.Cursor().Seek(want)
	return k != nil && string(k) == string(want)
}

// buildTerms decodes the records, computes their terms and returns the records that have to be written.
func (c *Collection) buildTerms(
	records []buildRecord, names []string, report func(string, error),
) ([]buildRecord, error) {
	raw := make([]rawRecord, len(records))
	for i, r := range records {
		raw[i] = r.rawRecord
	}
	objs, err := c.decodeRecords(raw)
	if err != nil {
		return nil, err
	}
	funcs := c.set.Load().funcs
	var needed []buildRecord
	for i, r := range records {
		changed := r.lacks
		r.want = make(map[string][]string, len(names))
		for _, name := range names {
			values, err := indexValues(name, funcs[name], objs[i])
			if err != nil {
				report(r.key, err)
			}
			r.want[name] = values
			changed = changed || !slices.Equal(values, r.Terms[name])
		}
		if changed {
			needed = append(needed, r)
		}
	}
	return needed, nil
}

// buildWrite writes the records and index entries with the new terms. Records
// keep their seq, since the objects have not changed.
func (c *Collection) buildWrite(ctx context.Context, names []string, records []buildRecord) error {
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	return c.writeLocked(ctx, nil, func(w *writer) error {
		for _, r := range records {
			old, err := w.get(r.key)
			if err != nil {
				return err
			}
			if !old.found || old.Seq != r.Seq {
				continue
			}
			if err := w.reindex(r, old, names); err != nil {
				return err
			}
		}
		return nil
	})
}

// reindex gives a record its terms in the named indexes, and seals it anew if the collection is sealed.
func (w *writer) reindex(r buildRecord, old stored, names []string) error {
	terms, err := w.c.plainTerms(r.key, old.Header)
	if err != nil {
		return err
	}
	h := old.Header
	if h.Terms = maps.Clone(terms); h.Terms == nil {
		h.Terms = map[string][]string{}
	}
	for _, name := range names {
		delete(h.Terms, name)
		if len(r.want[name]) > 0 {
			h.Terms[name] = r.want[name]
		}
	}
	h.Terms = w.c.storedTerms(h.Terms)
	payload, err := w.c.opened(format.BucketObjects, r.key, old.Header, old.payload)
	if err != nil {
		return err
	}
	// The payload is copied before the record that it is part of is replaced.
	if err := w.putRecord(r.key, h, payload); err != nil {
		return err
	}
	return w.moveTerms(r.key, old.Terms, h.Terms)
}

// buildFinish marks the indexes ready, in the file and then for readers.
func (c *Collection) buildFinish(ctx context.Context, names []string) error {
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	err := c.writeLocked(ctx, nil, func(w *writer) error {
		for _, name := range names {
			if st, ok := w.state.indexes[name]; ok {
				st.Ready = true
				w.state.indexes[name] = st
			}
		}
		return nil
	})
	if err == nil {
		c.putSet(c.set.Load().withReady(names...))
	}
	return err
}

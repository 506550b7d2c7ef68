package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// File is a Source that reads a store which this process has open.
type File struct {
	store    *store.Store
	meanings Meanings
}

// NewFile returns a Source that reads the open store s. Closing the File closes the store.
func NewFile(s *store.Store) *File { return &File{store: s} }

// Store returns the open store, for operations that a Source does not have. The File closes it.
func (f *File) Store() *store.Store { return f.store }

// Status implements Source.
func (f *File) Status(ctx context.Context) (Status, error) {
	infos, err := f.store.Collections(ctx)
	if err != nil {
		return Status{}, err
	}
	total, free, err := f.store.Size()
	if err != nil {
		return Status{}, err
	}
	s := Status{Store: f.store.Path(), Bytes: total, FreeBytes: free, WrittenBytes: f.store.Written(),
		Collections: []Collection{}}
	for _, info := range infos {
		c := NewCollection(info)
		if !c.Sealed && f.store.Sealed(info) { // new objects are sealed, but the stored objects are plain text
			c.Sealed, c.PlainText = true, info.Objects > 0
		}
		handlers, err := f.store.Cursors(ctx, info.Identity)
		if err != nil {
			return Status{}, err
		}
		c.Handlers = handlersOf(handlers)
		kept, err := f.store.Kept(ctx, info.Identity)
		if err != nil {
			return Status{}, err
		}
		feed, err := f.store.ChangelogID(ctx, info.Identity)
		if err != nil {
			return Status{}, err
		}
		c.Changes = changesOf(kept, feed)
		s.Collections = append(s.Collections, c)
	}
	if err := f.store.CommitErr(); err != nil {
		s.Error = err.Error()
	}
	Sort(s.Collections)
	f.SetMeanings(ctx, s.Collections)
	return s, nil
}

// Discovery returns the API server's discovery from the store, parsed; nil if none is stored. Do not modify it.
func (f *File) Discovery(ctx context.Context) *facts.Discovery {
	return f.meanings.Discovery(ctx, f.store)
}

// SetMeanings sets the fields Elsewhere and Retired of collections of this store; see the function SetMeanings.
func (f *File) SetMeanings(ctx context.Context, all []Collection) {
	SetMeanings(all, f.Discovery(ctx))
}

// Entries implements Source. It first commits uncommitted changes if the store is writable, and reads committed
// entries.
func (f *File) Entries(ctx context.Context, q Query, fn func(entry.Entry) error) error {
	info, err := f.find(ctx, q.Collection)
	if err != nil {
		return err
	}
	r, err := newReading(NewCollection(info), q, fn)
	if err != nil {
		return err
	}
	switch {
	case q.KeysOnly && !q.selective():
		var keys []string
		keys, err = f.keys(ctx, info.Identity)
		for _, key := range keys {
			if err := r.take(entry.Entry{Key: key}); err != nil {
				return err
			}
		}
	case q.Name != "":
		var e entry.Entry
		var found bool
		if e, found, err = f.store.Record(ctx, info.Identity, q.prefix()); found {
			err = r.take(e)
		}
	default:
		err = f.records(ctx, info.Identity, r)
	}
	if err := r.unreadable.add(err); err != nil {
		return NewCollection(info).undecodable(err)
	}
	return r.unreadable.errOrNil()
}

// find returns the description of the collection with an id. It first commits uncommitted changes if the store is
// writable.
func (f *File) find(ctx context.Context, id string) (entry.Info, error) {
	if err := f.store.Flush(ctx); err != nil {
		klog.FromContext(ctx).V(2).Info("Serving what was committed last", "err", err)
	}
	infos, err := f.store.Collections(ctx)
	if err != nil {
		return entry.Info{}, err
	}
	for _, info := range infos {
		if info.Identity.ID() == id {
			return info, nil
		}
	}
	return entry.Info{}, fmt.Errorf("collection %s: %w", id, ErrNoCollection)
}

// keys returns the keys of all objects in a collection. If records are damaged it returns the readable keys, with an
// error that wraps entry.ErrDamaged.
func (f *File) keys(ctx context.Context, id entry.Identity) ([]string, error) {
	view, err := f.store.View(ctx, id)
	if err != nil {
		return nil, err
	}
	return view.Keys(ctx)
}

var errPast = errors.New("past what is asked for")

func (f *File) records(ctx context.Context, id entry.Identity, r *reading) error {
	for after := r.query.prefix(); ; {
		err := f.store.Records(ctx, id, after, func(e entry.Entry) error {
			if !r.query.reaches(e.Key) {
				return errPast
			}
			return r.take(e)
		})
		var one *entry.RecordError
		if !errors.As(err, &one) || !errors.Is(err, entry.ErrDamaged) {
			if errors.Is(err, errPast) {
				return nil
			}
			return err
		}
		if after = one.Key; !r.query.reaches(after) {
			// The damaged record's key is outside of the queried range. All keys are read, because a flipped bit may have moved
			// a key.
			_, err := f.keys(ctx, id)
			return err
		}
		if err := r.unreadable.add(err); err != nil {
			return err
		}
	}
}

// Check implements Source.
func (f *File) Check(ctx context.Context) (store.Report, error) { return asProblem(f.store.Check(ctx)) }

// asProblem adds the error of a check to the report's problems if the error is damage, since a check looks for damage.
// It returns any other error.
func asProblem(report store.Report, err error) (store.Report, error) {
	if errors.Is(err, entry.ErrDamaged) {
		report.Problems = append(report.Problems, err.Error())
		err = nil
	}
	return report, err
}

// Compact rewrites the store's file without free pages. It fails if the store is open read-only.
func (f *File) Compact(ctx context.Context) (store.Compacted, error) { return f.store.Compact(ctx) }

// Rekey implements Holder.
func (f *File) Rekey(ctx context.Context, key string) (store.Compacted, error) {
	current, err := f.store.CurrentKey(ctx)
	if err != nil {
		return store.Compacted{}, fmt.Errorf("the current key of what holds the store: %w", err)
	}
	switch {
	case current == "":
		return store.Compacted{}, errors.New("what holds the store has no keys to seal it with; start it with them")
	case key != "" && key != current:
		return store.Compacted{}, fmt.Errorf("nothing was sealed anew: what holds the store has the current key %s, not %s; "+
			"put that key on top of its file of keys, or start it with them", current, key)
	}
	return f.store.Rekey(ctx)
}

// Save implements Holder. It omits collections that are kept in memory only.
func (f *File) Save(ctx context.Context, w io.Writer, r SaveRequest) error {
	_, err := snapshot.SaveStoreTo(ctx, f.store, w, r.Options())
	return err
}

// Scrub reads the whole file to find damage: see store.Store.Scrub.
func (f *File) Scrub(ctx context.Context) error { return f.store.Scrub(ctx) }

// Close implements Source.
func (f *File) Close() error { return f.store.Close() }

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// RestoreOptions are those of Restore. The zero value works for what is not encrypted.
type RestoreOptions struct {
	// Identities are tried in turn if the snapshot is encrypted.
	Identities []age.Identity
	// Secrets has the Secrets of the snapshot, and whatever else the store that it was saved from seals, written to a
	// store that does not seal them. Default: they are left out of it, but for Secrets that Redaction.Secrets redacts. A
	// store with keys seals what the other one did.
	Secrets bool
	// SelectOptions say what is left out besides.
	SelectOptions
	// Import are the options of the store that is made.
	Import store.ImportOptions
	// Progress is told how far it is. May be nil.
	Progress func(Progress)
}

// Restored is what Restore has written.
type Restored struct {
	// Header is what the snapshot says about itself.
	Header Header
	// Collections are as they are in the store; those with MustRelist set will be listed before they are synced.
	Collections []Collection
	Objects     int
	// Bytes is the sum of the payloads.
	Bytes int64
	// Skipped is how many objects SelectOptions.SkipUnknown has left out.
	Skipped int
	// LeftOut says which collections are in the snapshot and not in the store, and why, one an entry.
	LeftOut []string
}

// redactedTransform is what Attributes.Transform of a collection begins with that has been redacted. No program has
// such a transform, so the list that has to come writes every object anew, those too whose UID and resourceVersion are
// the server's.
const redactedTransform = "redacted: "

// Restore makes a store at storePath of the snapshot at path. Each collection resumes its watch from the
// resourceVersion of the snapshot, with no list, where the server still has the history; those of which objects or
// parts are missing, or redacted, are listed first (MustRelist), and are not Complete: no informer serves them before.
//
// It refuses to replace anything (store.ErrExists), and holds storePath until it ends: who opens a store there
// meanwhile gets store.ErrLocked. A snapshot that is damaged (ErrDamaged), or is none, leaves nothing. If the process
// dies the next restore to storePath, or open for writing, removes what is left.
func Restore(ctx context.Context, path, storePath string, o RestoreOptions) (Restored, error) {
	f, err := Open(path, OpenOptions{Identities: o.Identities})
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	j := newRestoring(f, o)
	j.restored.Header = f.Manifest().Header
	j.counts = func(c Collection) int { return c.Objects }
	restored, err := j.run(ctx, storePath, j.all)
	return restored, errors.Join(err, f.Close())
}

// RestoreFrom is Restore from a stream, which it reads to the end of the snapshot.
func RestoreFrom(ctx context.Context, in io.Reader, storePath string, o RestoreOptions) (Restored, error) {
	r, err := NewReader(in, ReaderOptions{Identities: o.Identities})
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	defer r.Close()
	src := &streamSource{r: r}
	j := newRestoring(src, o)
	j.restored.Header = r.Header()
	return j.run(ctx, storePath, func(ctx context.Context, i *store.Import) error {
		for {
			_, err := r.NextCollection()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				err = j.all(ctx, i)
			}
			if err != nil {
				return err
			}
		}
	})
}

// streamSource is the collection that a Reader is at, once.
type streamSource struct{ r *Reader }

// Collections implements Source. How many objects there are is not told at the end either: a filter that takes a
// collection when it begins shall take it then, too.
func (s *streamSource) Collections(context.Context) ([]Collection, error) {
	c := s.r.Collection()
	c.Objects, c.Bytes, c.Blocks = 0, 0, 0
	return []Collection{c}, nil
}

// Records implements Source.
func (s *streamSource) Records(ctx context.Context, _ entry.Identity, _ string, fn func(entry.Entry) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := s.r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = fn(r)
		}
		if err != nil {
			return err
		}
	}
}

// restoring is one restore at work.
type restoring struct {
	o        RestoreOptions
	src      Source
	restored Restored
	// counts is how many objects a collection has, where that is known before.
	counts func(Collection) int
	progress
}

func newRestoring(src Source, o RestoreOptions) *restoring {
	j := &restoring{o: o, src: src, counts: func(Collection) int { return 0 }, progress: progress{tell: o.Progress}}
	told := o.Skipped
	j.o.SelectOptions.Skipped = func(id entry.Identity, key string) {
		j.restored.Skipped++
		if told != nil {
			told(id, key)
		}
	}
	return j
}

// run makes the store of what read takes in.
func (j *restoring) run(
	ctx context.Context, storePath string, read func(ctx context.Context, i *store.Import) error,
) (Restored, error) {
	i, err := store.NewImport(ctx, storePath, j.o.Import)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	if err = read(ctx, i); err == nil {
		err = i.Commit(ctx)
	}
	if err := errors.Join(err, i.Abort()); err != nil {
		return Restored{}, fmt.Errorf("restore to %s: %w", storePath, err)
	}
	j.restored.Objects, j.restored.Bytes = j.now.Objects, j.now.Bytes
	return j.restored, nil
}

// all takes in the collections of src as it is now.
func (j *restoring) all(ctx context.Context, i *store.Import) error {
	selected, err := Select(j.src, j.o.SelectOptions)
	if err != nil {
		return err
	}
	all, err := selected.Collections(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		j.now.TotalObjects += j.counts(c)
	}
	j.report()
	for _, c := range all {
		if why := j.o.leavesOut(c, i); why != "" {
			j.now.TotalObjects -= j.counts(c)
			j.restored.LeftOut = append(j.restored.LeftOut, c.Identity.String()+": "+why)
			continue
		}
		if err := j.collection(ctx, i, selected, c); err != nil {
			return err
		}
	}
	return nil
}

// leavesOut returns why a collection is not restored, or "".
func (o RestoreOptions) leavesOut(c Collection, i *store.Import) string {
	if o.Secrets || c.Sealed && i.CanSeal() || i.Seals(c.Identity.GroupResource()) {
		return ""
	}
	if why := c.Confidential(); why != "" {
		return why + ", the store does not seal them, and they were not asked for in plain text"
	}
	return ""
}

// collection takes in one.
func (j *restoring) collection(ctx context.Context, i *store.Import, selected Source, c Collection) error {
	if len(c.Redacted) > 0 && !strings.HasPrefix(c.Attributes.Transform, redactedTransform) {
		c.Attributes.Transform = redactedTransform + c.Attributes.Transform
	}
	err := i.Begin(ctx, store.ImportCollection{Identity: c.Identity, Attributes: c.Attributes, Resource: c.Resource,
		Seal: c.Sealed && i.CanSeal()})
	if err != nil {
		return err
	}
	j.now.Collection = c.Identity
	skipped := j.restored.Skipped
	err = selected.Records(ctx, c.Identity, "", func(r entry.Entry) error {
		j.done(r)
		return i.Add(ctx, r)
	})
	if err != nil {
		return err
	}
	as, err := j.state(ctx, selected, c, j.restored.Skipped-skipped)
	if err != nil {
		return err
	}
	n, err := i.End(ctx, as)
	if err != nil {
		return err
	}
	if want := j.counts(c); want > 0 && n+j.restored.Skipped-skipped != want {
		return fmt.Errorf("%s has %d objects, and the snapshot says %d: %w", c.Identity, n, want, ErrDamaged)
	}
	c.setState(State(as))
	c.Objects = n
	j.restored.Collections = append(j.restored.Collections, c)
	j.report()
	return nil
}

// state is that of a collection whose records have been read: of a stream it is known only then. What has been skipped
// is missing, and one that has a part of the objects, or other bodies than the server, is not complete: an informer
// that starts from the disk would take them for all, and for what they are.
func (j *restoring) state(ctx context.Context, selected Source, c Collection, skipped int) (store.ImportState, error) {
	if _, ok := j.src.(*streamSource); ok {
		now, err := selected.Collections(ctx)
		if err != nil {
			return store.ImportState{}, err
		}
		c.setState(now[0].State())
	}
	as := c.State().without(skipped)
	as.Complete = as.Complete && len(c.Filtered) == 0 && !redacted(c)
	if redacted(c) && as.MustRelist == "" { // of a store that a redacted one was restored to
		as.MustRelist = "objects were redacted"
	}
	return store.ImportState(as), nil
}

// redacted reports whether bodies of a collection are not what a server has, now or in the store that it was saved
// from.
func redacted(c Collection) bool {
	return len(c.Redacted) > 0 || strings.HasPrefix(c.Attributes.Transform, redactedTransform)
}

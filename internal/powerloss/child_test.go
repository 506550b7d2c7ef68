package powerloss_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/powerloss"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/seal"
)

const (
	storeName    = "a/b/larder.db"
	snapshotName = "a/b/saved.larder"
	restoredName = "restored/larder.db"
)

// The encryption keys of the store. Secrets are sealed under the first key until a Rekey to the second.
const (
	firstKey  = "one:b25lIGtleSBvZiAzMiBieXRlcyBmb3IgYSB0ZXN0ISE="
	secondKey = "two:dHdvIGtleXMgb2YgMzIgYnl0ZXMgZm9yIGEgdGVzdCE="
)

var quiet = logr.Discard()

func openStore(path string, logger logr.Logger, keys ...string) (*store.Store, error) {
	parsed, err := seal.ParseKeys([]byte(strings.Join(keys, "\n")))
	if err != nil {
		return nil, err
	}
	return store.Open(path, store.Options{
		Logger: &logger, Encryption: &seal.Encryption{Keys: parsed},
		CommitBytes: 24 << 10, // makes the store commit often in the background
	})
}

// worker uses stores in a traced process and adds its progress to the op log, as texts. "class C" names the following
// work. "begun T N" says that T (a collection or file) may be at N from now on. "done T N" says that T is durably at N:
// the call that promises this has returned.
type worker struct {
	*powerloss.Marker
	dir    string
	random *rand.Rand
	s      *store.Store
	tapes  []*tape
	docs   int
}

type tape struct {
	stream
	c      *store.Collection
	now    contents
	n      int
	cursor *store.Cursor
	seq    uint64
}

type step struct {
	class string
	do    func(ctx context.Context) error
}

func childStore(dir string) error {
	w := newWorker(dir)
	return w.run([]step{
		{"creation", w.create}, {"cold list", w.relist}, {"batches", w.batches}, {"relist", w.relist}, {"batches", w.batches},
		{"compaction", w.compact}, {"batches", w.batches}, {"close and open", w.reopen(firstKey)}, {"batches", w.batches},
		{"save", w.save}, {"restore", w.restore}, {"relist", w.relist}, {"rekey", w.rekey}, {"batches", w.batches},
		{"close and open", w.reopen(secondKey)}, {"batches", w.batches}, {"close and open", w.close},
	})
}

// survived is the text that a process adds to the op log if it was not killed at the planned point.
const survived = "not killed"

// childKilledInCommit continues with the files of childStore. It is killed between the write and the sync of a commit.
func childKilledInCommit(dir string) error {
	w := newWorker(dir)
	die := func(ctx context.Context) error {
		return errors.Join(w.flush(ctx), w.apply(ctx, w.tapes[0]), w.DieAtSync(2, false), w.flush(ctx), w.Mark(survived))
	}
	return w.run([]step{{"close and open", w.reopen(secondKey)}, {"batches", w.batches}, {"kill in a commit", die}})
}

// childKilledInCompaction continues with the files of childKilledInCommit. It is killed between the rename of the new
// file and the sync of the directory.
func childKilledInCompaction(dir string) error {
	w := newWorker(dir)
	die := func(ctx context.Context) error {
		return errors.Join(w.DieAtSync(1, true), w.compact(ctx), w.Mark(survived))
	}
	return w.run([]step{{"open after a kill", w.reopen(secondKey)}, {"batches", w.batches}, {"kill in a compaction", die}})
}

// childResumed continues with the files of childKilledInCompaction, and is not killed.
func childResumed(dir string) error {
	w := newWorker(dir)
	return w.run([]step{
		{"open after a kill", w.reopen(secondKey)}, {"batches after a kill", w.batches}, {"close and open", w.close},
	})
}

func newWorker(dir string) *worker {
	w := &worker{Marker: powerloss.NewMarker(), dir: dir, random: rand.New(rand.NewPCG(1, 2))}
	for _, st := range streams {
		w.tapes = append(w.tapes, &tape{stream: st, now: contents{}})
	}
	return w
}

func (w *worker) run(steps []step) error {
	for _, s := range steps {
		if err := errors.Join(w.Mark("class "+s.class), s.do(context.Background())); err != nil {
			return fmt.Errorf("%s: %w", s.class, err)
		}
	}
	return nil
}

func (w *worker) begun(what string, n int) error { return w.Mark(fmt.Sprintf("begun %s %d", what, n)) }
func (w *worker) done(what string, n int) error  { return w.Mark(fmt.Sprintf("done %s %d", what, n)) }

// open opens the store and its collections. Each scripted stream of events continues at its collection's
// resourceVersion.
func (w *worker) open(ctx context.Context, keys ...string) (err error) {
	if w.s, err = openStore(filepath.Join(w.dir, storeName), quiet, keys...); err != nil {
		return err
	}
	for _, t := range w.tapes {
		o, err := t.options()
		if err != nil {
			return err
		}
		if t.c, err = w.s.Collection(ctx, t.id, o); err != nil {
			return err
		}
		if t.cursor, err = t.c.OpenCursor(ctx, "handler"); err != nil {
			return err
		}
		info, err := t.c.Info(ctx)
		position, _, err2 := t.cursor.Position()
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		t.n, _ = strconv.Atoi(info.ResourceVersion) // a new collection has no resourceVersion: n is 0
		t.now, t.seq = t.after(t.n), position.Seq
	}
	data, err := w.s.Document(ctx, "document")
	w.docs, _ = documentNumber(data)
	return err
}

func (w *worker) create(ctx context.Context) error {
	return errors.Join(w.open(ctx, firstKey), w.document(ctx))
}

func (w *worker) document(ctx context.Context) error {
	w.docs++
	err := errors.Join(w.begun("document", w.docs), w.s.PutDocument(ctx, "document", document(w.docs)))
	return errors.Join(err, w.done("document", w.docs))
}

func document(n int) []byte { return []byte(strings.Repeat(fmt.Sprintf("document %d ", n), 300+n)) }

// documentNumber returns the number of the test document with these contents. ok is false for other contents.
func documentNumber(data []byte) (n int, ok bool) {
	if len(data) == 0 {
		return 0, true
	}
	_, err := fmt.Sscanf(string(data), "document %d ", &n)
	return n, err == nil && bytes.Equal(data, document(n))
}

func (w *worker) flush(ctx context.Context) error { return errors.Join(w.s.Flush(ctx), w.flushed()) }

func (w *worker) flushed() error {
	var errs []error
	for _, t := range w.tapes {
		errs = append(errs, w.done(t.id.Resource, t.n), w.done("cursor of "+t.id.Resource, int(t.seq)))
	}
	return errors.Join(errs...)
}

// apply applies up to 30 further events of a stream to its collection. The collection's durable handler acknowledges
// some of them.
func (w *worker) apply(ctx context.Context, t *tape) error {
	to := t.n + 1 + w.random.IntN(30)
	b := t.batch(t.now, t.n, to)
	if err := w.begun(t.id.Resource, to); err != nil {
		return err
	}
	if _, err := t.c.Apply(ctx, b); err != nil {
		return err
	}
	t.n = to
	if w.random.IntN(4) > 0 {
		return nil
	}
	position, resets, err := t.cursor.Position()
	if err != nil {
		return err
	}
	info, err := t.c.Info(ctx)
	if err != nil || info.NextSeq < 2 {
		return err
	}
	t.seq = info.NextSeq - 1
	err = w.begun("cursor of "+t.id.Resource, int(t.seq))
	return errors.Join(err, t.cursor.Acknowledge(consumer.Position{Seq: t.seq, Notified: position.Notified}, resets))
}

func (w *worker) batches(ctx context.Context) error {
	for i := range 12 {
		for _, t := range w.tapes {
			if err := w.apply(ctx, t); err != nil {
				return err
			}
		}
		switch i % 4 {
		case 1:
			if err := w.flush(ctx); err != nil {
				return err
			}
		case 3:
			if err := w.document(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// whileWriting calls do during the application of twelve batches, and then commits all changes.
func (w *worker) whileWriting(ctx context.Context, do func() error) error {
	applied := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 12 && err == nil; i++ {
			err = w.apply(ctx, w.tapes[i%len(w.tapes)])
		}
		applied <- err
	}()
	return errors.Join(do(), <-applied, w.flush(ctx))
}

func (w *worker) compact(ctx context.Context) error {
	return w.whileWriting(ctx, func() error {
		_, err := w.s.Compact(ctx)
		return err
	})
}

// relist skips 200 events of each stream, like a broken watch, and lists the state after these events.
func (w *worker) relist(ctx context.Context) error {
	for _, t := range w.tapes {
		for range 200 {
			t.n++
			t.now.next(t.stream, t.n)
		}
		if err := w.begun(t.id.Resource, t.n); err != nil {
			return err
		}
		r, err := t.c.BeginReplace(ctx, store.ReplaceOptions{})
		if err != nil {
			return err
		}
		for page := range slices.Chunk(t.now.sorted(), 50) {
			var items []runtime.Object
			for _, object := range page {
				items = append(items, t.make(object, t.now[object]))
			}
			if _, err := r.Page(ctx, items); err != nil {
				return err
			}
		}
		for more := true; more; {
			result, err := r.Commit(ctx, entry.Batch{ResourceVersion: strconv.Itoa(t.n)})
			if err != nil {
				return err
			}
			more = result.More
		}
	}
	return w.flush(ctx)
}

func (w *worker) close(context.Context) error {
	if w.s == nil {
		return nil
	}
	return errors.Join(w.s.Close(), w.flushed())
}

func (w *worker) reopen(keys ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error { return errors.Join(w.close(ctx), w.open(ctx, keys...)) }
}

// rekey opens the store with a new key and seals all records under that key. The old key is then not needed.
func (w *worker) rekey(ctx context.Context) error {
	err := errors.Join(w.begun("key", 2), w.reopen(secondKey, firstKey)(ctx))
	return errors.Join(err, w.whileWriting(ctx, func() error {
		_, err := w.s.Rekey(ctx)
		return errors.Join(err, w.done("key", 2))
	}))
}

// save writes snapshot files, each in place of the previous one.
func (w *worker) save(ctx context.Context) error {
	for i := range 3 {
		if err := errors.Join(w.apply(ctx, w.tapes[0]), w.flush(ctx), w.begun("snapshot", w.tapes[0].n)); err != nil {
			return err
		}
		if _, err := snapshot.SaveStore(ctx, w.s, filepath.Join(w.dir, snapshotName), snapshot.SaveOptions{}); err != nil {
			return fmt.Errorf("save %d: %w", i, err)
		}
		if err := w.done("snapshot", w.tapes[0].n); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) restore(ctx context.Context) error {
	n := w.tapes[0].n
	if err := w.begun("restored", n); err != nil {
		return err
	}
	o := snapshot.RestoreOptions{Import: store.ImportOptions{Store: store.Options{Logger: &quiet}}}
	_, err := snapshot.Restore(ctx, filepath.Join(w.dir, snapshotName), filepath.Join(w.dir, restoredName), o)
	return errors.Join(err, w.done("restored", n))
}

package powerloss_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-logr/logr/funcr"

	"github.com/larder-dev/larder/internal/powerloss"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// promise is the progress that a traced process has announced up to an op of the op log: the numbers of the last begun
// work, and of the last durable work.
type promise struct {
	class       string
	begun, done map[string]int
}

// promiseAt returns the progress that the first at ops of the op log announce.
func promiseAt(record []powerloss.Op, at int) (promise, error) {
	p := promise{begun: map[string]int{}, done: map[string]int{}}
	for _, op := range record[:at] {
		if op.Kind != powerloss.Mark {
			continue
		}
		what, rest, _ := strings.Cut(op.Text, " ")
		switch of := map[string]map[string]int{"begun": p.begun, "done": p.done}[what]; {
		case what == "class":
			p.class = rest
		case of != nil:
			end := strings.LastIndex(rest, " ")
			n, err := strconv.Atoi(rest[end+1:])
			if err != nil {
				return p, fmt.Errorf("mark %q: %w", op.Text, err)
			}
			of[rest[:end]] = n
		}
	}
	return p, nil
}

// holds returns an error unless found is at least the number of the last durable work and at most that of the last
// begun work.
func (p promise) holds(what string, found int) error {
	if found < p.done[what] || found > p.begun[what] {
		return fmt.Errorf("%s: found %d, %d was durable and %d had begun", what, found, p.done[what], p.begun[what])
	}
	return nil
}

func (p promise) keys() []string {
	switch {
	case p.done["key"] > 0:
		return []string{secondKey}
	case p.begun["key"] > 0:
		return []string{secondKey, firstKey}
	}
	return []string{firstKey}
}

func checkImage(ctx context.Context, dir string, p promise) error {
	return errors.Join(checkStore(ctx, filepath.Join(dir, storeName), p),
		checkSnapshot(ctx, filepath.Join(dir, snapshotName), p),
		checkRestored(ctx, filepath.Join(dir, restoredName), p))
}

func checkStore(ctx context.Context, path string, p promise) (err error) {
	var logged strings.Builder
	logger := funcr.New(func(_, args string) { logged.WriteString(args + "\n") }, funcr.Options{})
	s, err := openStore(path, logger, p.keys()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(), wantAlone(path)) }()
	if err := checkMovedAside(s, logged.String(), p); err != nil {
		return err
	}
	if err := checkDocument(ctx, s, p); err != nil {
		return err
	}
	found := map[*store.Collection]int{}
	for _, st := range streams {
		c, n, err := checkCollection(ctx, s, st, p)
		if err != nil {
			return fmt.Errorf("%s: %w", st.id.Resource, err)
		}
		found[c] = n
	}
	if err := sound(ctx, s); err != nil {
		return err
	}
	if err := continueStreams(ctx, s, found); err != nil {
		return fmt.Errorf("go on: %w", err)
	}
	return nil
}

// checkMovedAside returns an error if the store was moved aside although some work was durable, or without a log
// message.
func checkMovedAside(s *store.Store, logged string, p promise) error {
	moved := s.Quarantined()
	if moved == "" {
		return nil
	}
	if _, err := os.Stat(moved); err != nil || len(p.done) > 0 || !strings.Contains(logged, "moved aside") {
		return fmt.Errorf("moved aside to %s, and logged %q (%v)", moved, logged, err) //nolint:errorlint // may be nil
	}
	return nil
}

// continueStreams applies the next events of each stream (a scripted sequence of events) to its collection. found has
// the number of the last event in each collection.
func continueStreams(ctx context.Context, s *store.Store, found map[*store.Collection]int) error {
	for _, st := range streams {
		for c, n := range found {
			if n == 0 || c.Identity().Resource != st.id.Resource {
				continue
			}
			_, err := c.Apply(ctx, st.batch(st.after(n), n, n+20))
			if err = errors.Join(err, s.Flush(ctx)); err != nil {
				return err
			}
			if _, err = compare(ctx, c, st); err != nil {
				return fmt.Errorf("%s: %w", st.id.Resource, err)
			}
		}
	}
	return sound(ctx, s)
}

func wantAlone(path string) error {
	for _, suffix := range []string{".opening", ".new-*"} {
		if names, err := filepath.Glob(path + suffix); len(names) > 0 || err != nil {
			return fmt.Errorf("left beside the store: %q (%v)", names, err) //nolint:errorlint // may be nil
		}
	}
	return nil
}

func sound(ctx context.Context, s *store.Store) error {
	report, err := s.Check(ctx)
	if err == nil && len(report.Problems) > 0 {
		err = fmt.Errorf("check: %q", report.Problems)
	}
	return err
}

func checkDocument(ctx context.Context, s *store.Store, p promise) error {
	data, err := s.Document(ctx, "document")
	if err != nil {
		return err
	}
	n, ok := documentNumber(data)
	if !ok {
		return fmt.Errorf("a document of %d bytes is none that was written: %.40q", len(data), data)
	}
	return p.holds("document", n)
}

// checkCollection compares a collection with its scripted stream of events, and returns the number of the last event in
// the collection.
func checkCollection(ctx context.Context, s *store.Store, st stream, p promise) (*store.Collection, int, error) {
	o, err := st.options()
	if err != nil {
		return nil, 0, err
	}
	c, err := s.Collection(ctx, st.id, o)
	if err != nil {
		return nil, 0, err
	}
	n, err := compare(ctx, c, st)
	if err = errors.Join(err, p.holds(st.id.Resource, n)); err != nil {
		return nil, 0, err
	}
	handlers, err := c.Cursors(ctx)
	if err != nil {
		return nil, 0, err
	}
	seq := 0
	for _, h := range handlers {
		seq = int(h.Seq)
	}
	return c, n, p.holds("cursor of "+st.id.Resource, seq)
}

// compare returns the number of the last event in a collection, or 0 if no list has been stored. It returns an error if
// the contents differ from the state after that event of the scripted stream.
func compare(ctx context.Context, c *store.Collection, st stream) (int, error) {
	info, err := c.Info(ctx)
	switch {
	case err != nil:
		return 0, err
	case info.MustRelist != "":
		return 0, errors.New("it must be listed again: " + info.MustRelist)
	case !info.Complete && info.ResourceVersion == "":
		return 0, nil
	}
	n, err := strconv.Atoi(info.ResourceVersion)
	if err != nil || !info.Complete {
		return n, fmt.Errorf("resourceVersion %q, complete: %v", info.ResourceVersion, info.Complete)
	}
	want := st.after(n)
	objects, err := c.List(ctx)
	if err != nil {
		return n, err
	}
	colors := map[string]int{}
	for i, object := range want.sorted() {
		expected := st.make(object, want[object])
		if i >= len(objects) || content(objects[i]) != content(expected) {
			return n, fmt.Errorf("at %d: object %d of %d is not %s", n, i, len(objects), name(object))
		}
		color, _ := byColor(expected)
		colors[color[0]]++
	}
	if len(objects) != len(want) || info.Objects != len(want) {
		return n, fmt.Errorf("at %d: %d objects, %d as it says, and there were %d", n, len(objects), info.Objects, len(want))
	}
	for color, want := range colors {
		keys, err := c.IndexKeys(ctx, "color", color)
		if err == nil && len(keys) != want {
			err = fmt.Errorf("%d of %s, and there were %d", len(keys), color, want)
		}
		if err != nil {
			return n, fmt.Errorf("at %d: %w", n, err)
		}
	}
	return n, nil
}

func checkSnapshot(ctx context.Context, path string, p promise) error {
	f, err := snapshot.Open(path, snapshot.OpenOptions{})
	if errors.Is(err, fs.ErrNotExist) {
		return p.holds("snapshot", 0)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	report, err := f.Verify(ctx)
	if err != nil || len(report.Problems) > 0 {
		return fmt.Errorf("snapshot: %q (%v)", report.Problems, err) //nolint:errorlint // may be nil
	}
	all, err := f.Collections(ctx)
	if err != nil || len(all) != 1 {
		return fmt.Errorf("%d collections in the snapshot (%v)", len(all), err) //nolint:errorlint // may be nil
	}
	n, err := strconv.Atoi(all[0].ResourceVersion)
	return errors.Join(err, p.holds("snapshot", n))
}

// checkRestored checks a store that was restored from a snapshot file. The store must be complete as soon as its file
// has its final name.
func checkRestored(ctx context.Context, path string, p promise) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return p.holds("restored", 0)
	}
	p.done = map[string]int{podStream.id.Resource: p.begun["restored"]}
	p.begun = map[string]int{podStream.id.Resource: p.begun["restored"]}
	s, err := openStore(path, quiet, firstKey)
	if err != nil {
		return fmt.Errorf("restored: %w", err)
	}
	_, _, err = checkCollection(ctx, s, podStream, p)
	if err = errors.Join(err, sound(ctx, s), s.Close(), wantAlone(path)); err != nil {
		return fmt.Errorf("restored: %w", err)
	}
	return nil
}

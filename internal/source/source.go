package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
	"github.com/larder-dev/larder/store/seal"
)

// ErrNoCollection says that the store has no collection with the requested id.
var ErrNoCollection = errors.New("no such collection in the store")

// Source is the data that commands read: from a store's file, from the larder sync that has locked the file, or from a
// snapshot.
type Source interface {
	// Status describes the file, its collections, and the larder sync that has locked the file, if any.
	Status(ctx context.Context) (Status, error)
	// Entries calls fn with each entry that q selects, in key order, and returns the first error. fn may keep the entries.
	// A named object that does not exist is no error. After damage Entries continues with the readable entries and then
	// returns an *UnreadableError. It decodes an entry only if a selector cannot be evaluated on the entry's bytes.
	Entries(ctx context.Context, q Query, fn func(entry.Entry) error) error
	// Check verifies the whole file, and reports damage.
	Check(ctx context.Context) (store.Report, error)
	Close() error
}

// Query selects objects of one collection.
type Query struct {
	// Collection is the required id of the collection.
	Collection string
	// Namespace selects objects in one namespace. Empty selects objects of all namespaces and cluster-scoped objects.
	Namespace string
	// Name selects the object with that name. Empty selects all objects.
	Name     string
	Selector string
	// Fields is a field selector with the fields that query.Query supports.
	Fields string
	// KeysOnly requests entries that have only a key. Without a selector the objects' records are not read, so the result
	// includes the names of damaged and of sealed objects.
	KeysOnly bool
	// OmitManagedFields requests objects without metadata.managedFields, from Sources that can omit them quickly; see
	// codec.OmitManagedFields.
	OmitManagedFields bool
}

func (q Query) selective() bool { return q.Selector != "" || q.Fields != "" }

// prefix returns the key of the object that q names. If q has no name, prefix returns the namespace, with which the
// keys of its objects begin.
func (q Query) prefix() string {
	if q.Namespace == "" {
		return q.Name
	}
	return q.Namespace + "/" + q.Name
}

func (q Query) reaches(key string) bool {
	return key == q.prefix() || q.Name == "" && strings.HasPrefix(key, q.prefix())
}

// parse converts q to a query.Query with parsed selectors. That query has no name.
func (q Query) parse() (query.Query, error) {
	parsed := query.Query{Namespace: q.Namespace}
	var err error
	if q.Selector != "" {
		if parsed.Labels, err = labels.Parse(q.Selector); err != nil {
			return parsed, fmt.Errorf("label selector %q: %w", q.Selector, err)
		}
	}
	if q.Fields != "" {
		if parsed.Fields, err = fields.ParseSelector(q.Fields); err != nil {
			return parsed, fmt.Errorf("field selector %q: %w", q.Fields, err)
		}
	}
	return parsed, nil
}

// reading is one execution of a Query: it passes the selected entries of a collection to the function fn.
type reading struct {
	query   Query
	codec   codec.Codec
	selects func(entry.Entry) (bool, error)
	fn      func(entry.Entry) error
	// unreadable lists the damaged entries. It includes entries that q might not select, since their contents are unknown.
	unreadable UnreadableError
}

func newReading(c Collection, q Query, fn func(entry.Entry) error) (*reading, error) {
	parsed, err := q.parse()
	if err != nil {
		return nil, err
	}
	d := NewDecoder(c)
	return &reading{query: q, codec: d.codec, selects: parsed.ForEntries(d.codec), fn: fn}, nil
}

func (r *reading) take(e entry.Entry) error {
	if !r.query.reaches(e.Key) {
		return nil
	}
	selected, err := r.selects(e)
	if err := r.unreadable.add(err); err != nil || !selected {
		return err
	}
	if r.query.KeysOnly {
		e = entry.Entry{Key: e.Key}
	}
	if r.query.OmitManagedFields {
		e.Payload = codec.OmitManagedFields(r.codec, e.Encoding, e.Payload)
	}
	return r.fn(e)
}

// Options are the options of Open. The zero value is valid.
type Options struct {
	// Wait is how long Open retries while the file is locked and no process answers on the socket: a larder sync may be
	// starting or stopping. Default 3 s; a negative value means no retries.
	Wait time.Duration
	// Waiting, unless it is nil, is called once if Open still retries after half a second.
	Waiting func()
	Logger  *logr.Logger
	// Encryption has the keys of a store with sealed objects. Without keys only the names of sealed objects are
	// readable.
	Encryption *seal.Encryption
	// Identities are age identities. Open tries them all to decrypt a snapshot.
	Identities []age.Identity
	// SignedBy are public keys. A snapshot must be signed with one of them. Default: no signature is required.
	SignedBy []minisign.PublicKey
}

const (
	defaultWait  = 3 * time.Second
	retryEvery   = 50 * time.Millisecond
	waitingAfter = 500 * time.Millisecond
)

// HeldError says that another process has locked the store's file and does not answer on the socket.
type HeldError struct {
	// Path is the store's file, and Socket the path of the socket beside the file.
	Path, Socket string
	Err          error
}

func (e *HeldError) Error() string {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return fmt.Sprintf("%s: another process holds the store, and it is no larder sync: there is no %s", e.Path, e.Socket)
	}
	return fmt.Sprintf("%s: another process holds the store, and it does not answer on %s (%v)", e.Path, e.Socket, e.Err)
}

func (e *HeldError) Unwrap() []error { return []error{store.ErrLocked, e.Err} }

// Open opens the store or snapshot at path for reading; the file's first bytes tell which. If a larder sync holds the
// store, Open connects to that sync.
func Open(ctx context.Context, path string, o Options) (Source, error) {
	if is, err := snapshot.Is(path); err == nil && is { // opening the store returns the error for an unusable path
		return OpenSnapshot(ctx, path, o)
	}
	socket, err := SocketPath(path)
	if err != nil {
		return nil, err
	}
	openFile := func() (Source, error) {
		s, err := store.Open(path, store.Options{ReadOnly: true, LockTimeout: -1, Logger: o.Logger, Encryption: o.Encryption})
		if err != nil {
			return nil, err
		}
		if c, _, err := Dial(ctx, path); err == nil { // another file has replaced the sync's file
			return c, s.Close()
		}
		return NewFile(s), nil
	}
	dialSync := func() (Source, error) {
		c, _, err := Dial(ctx, path)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	wait := o.Wait
	if wait == 0 {
		wait = defaultWait
	}
	src, dialErr, err := openOrDial(ctx, wait, o.Waiting, openFile, dialSync)
	if dialErr != nil {
		return nil, &HeldError{Path: path, Socket: socket, Err: dialErr}
	}
	return src, err
}

// openOrDial opens the store's file, or connects to the socket if the file is locked. It retries until one of the two
// succeeds or wait is over.
func openOrDial(
	ctx context.Context, wait time.Duration, waiting func(), openFile, dialSync func() (Source, error),
) (src Source, dialErr, err error) {
	begun := time.Now()
	deadline := begun.Add(wait)
	for {
		src, err = openFile()
		if err == nil || !errors.Is(err, store.ErrLocked) {
			return src, nil, err
		}
		switch src, dialErr = dialSync(); {
		case dialErr == nil:
			return src, nil, nil
		case errors.Is(dialErr, ErrOtherVersion):
			return nil, nil, dialErr
		}
		if !time.Now().Before(deadline) {
			return nil, dialErr, nil
		}
		if waiting != nil && time.Since(begun) > waitingAfter {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(retryEvery):
		}
	}
}

// Entries calls fn like Source.Entries, for a collection of unstructured objects or metadata that is kept in memory
// only.
func Entries(ctx context.Context, r store.Reader, q Query, fn func(entry.Entry) error) error {
	parsed, err := q.parse()
	if err != nil {
		return err
	}
	return r.Each(ctx, parsed, func(key string, obj runtime.Object) error {
		if !q.reaches(key) {
			return nil
		}
		if q.KeysOnly {
			return fn(entry.Entry{Key: key})
		}
		e, err := encode(key, obj)
		if err != nil {
			return err
		}
		return fn(e)
	})
}

// maxListed is the maximum number of problems that an UnreadableError lists in words.
const maxListed = 20

// UnreadableError lists damaged objects. All other selected objects have been read.
type UnreadableError struct {
	// Count is the number of unreadable objects. If AtLeast is set, further objects may be unreadable.
	Count   int
	AtLeast bool
	// Problems describes each unreadable object, or each damaged block of a snapshot, in a line. More is the number of
	// omitted lines.
	Problems []string
	More     int
}

func (e *UnreadableError) Error() string {
	count := "an object"
	switch {
	case e.AtLeast:
		count = fmt.Sprintf("at least %d objects", e.Count)
	case e.Count != 1:
		count = fmt.Sprintf("%d objects", e.Count)
	}
	if len(e.Problems) == 1 && e.More == 0 {
		return count + " could not be read: " + e.Problems[0]
	}
	lines := append([]string{count + " could not be read:"}, e.Problems...)
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", e.More))
	}
	return strings.Join(lines, "\n  ")
}

func (e *UnreadableError) Unwrap() error { return entry.ErrDamaged }

// Merge adds the unreadable objects of another UnreadableError to e.
func (e *UnreadableError) Merge(other *UnreadableError) {
	e.Count += other.Count
	e.AtLeast = e.AtLeast || other.AtLeast
	e.Problems = append(e.Problems, other.Problems...)
	listed := min(len(e.Problems), maxListed)
	e.More += other.More + len(e.Problems) - listed
	e.Problems = e.Problems[:listed]
}

func (e *UnreadableError) errOrNil() error {
	if e.Count == 0 {
		return nil
	}
	return e
}

// add adds err to e and returns nil if err is about damaged objects. It returns any other error unchanged.
func (e *UnreadableError) add(err error) error {
	var other *UnreadableError
	switch {
	case errors.As(err, &other):
		e.Merge(other)
	case errors.Is(err, entry.ErrDamaged):
		var record *entry.RecordError
		if errors.As(err, &record) {
			err = record
		}
		e.Merge(&UnreadableError{Count: 1, Problems: []string{err.Error()}})
	default:
		return err
	}
	return nil
}

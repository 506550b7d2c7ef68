package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/engine"
)

// Import makes a store from records, for example of Store.Records or a snapshot file. For each collection call Begin,
// Add for each record in key order, and End; then call Commit. Import buffers about 4 MiB, the size of its
// transactions.
//
// The file gets its name in one step, when all records are on the disk. Until then its name is <path>.new-*, and other
// calls that open or make a store at path fail with ErrLocked. If the process dies, the next Import or Open for writing
// removes that file. An informer with the same Attributes resumes from the imported resourceVersion, without a list.
//
// An Import must be used by one goroutine. After a method has failed only Abort is allowed.
type Import struct {
	file        *boltfile.NewFile
	store       *Store
	c           *Collection         // c is the current collection; nil before Begin and after End
	list        *engine.Replacement // list receives the records of the current collection
	what        ImportCollection
	last        string // last is the key of the last added record
	page        []entry.Entry
	bytes       int // bytes is the approximate size of page in bytes
	done        bool
	compression Compression
}

// ImportOptions are the options of NewImport. The zero value works.
type ImportOptions struct {
	// Store has the options of the new store. Only LockTimeout, MaxSize, Logger, Encryption and Hooks are used.
	Store Options
	// Compression of the records. Default none.
	Compression Compression
}

// ImportCollection describes a collection that an Import makes. The Info of the collection gets its fields except Seal.
type ImportCollection struct {
	Identity   entry.Identity
	Attributes entry.Attributes
	Resource   entry.ResourceInfo
	// Seal seals the collection even if Options.Encryption does not name its resource.
	Seal bool
}

// ImportState is the state of an imported collection. If it is Complete, it has a ResourceVersion or a MustRelist.
type ImportState struct {
	ResourceVersion string
	Complete        bool
	MustRelist      string
	LastContact     time.Time
}

func (st ImportState) validate() error {
	switch {
	case st.ResourceVersion != "" && !entry.ComparableRV(st.ResourceVersion):
		return fmt.Errorf("its resourceVersion %q cannot be compared with others; leave it empty and say so with MustRelist",
			st.ResourceVersion)
	case st.Complete && st.ResourceVersion == "" && st.MustRelist == "":
		return errors.New("it is complete, and has neither a resourceVersion nor a reason to list it anew (MustRelist)")
	}
	return nil
}

// NewImport begins a store at path, and creates the directory if it is missing. It fails with ErrExists if anything is
// at path, with ErrNoSpace, and with ErrLocked if another process makes or opens a store there for longer than
// LockTimeout.
func NewImport(ctx context.Context, path string, o ImportOptions) (*Import, error) {
	i, err := newImport(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("make the store %s: %w", path, err)
	}
	return i, nil
}

func newImport(ctx context.Context, path string, o ImportOptions) (*Import, error) {
	if path == "" {
		return nil, errors.New("the path is empty; name the file to make")
	}
	if err := o.Compression.validate(); err != nil {
		return nil, err
	}
	file, err := boltfile.BeginFile(ctx, path, time.Now().Add(o.Store.lockTimeout()))
	if err != nil {
		return nil, err
	}
	so := o.Store
	so.ReadOnly, so.CommitInterval = false, 0
	s, err := OpenContext(ctx, file.Temp, so)
	if err != nil {
		return nil, errors.Join(err, file.Abort())
	}
	return &Import{file: file, store: s, compression: o.Compression}, nil
}

// Seals reports whether Options.Encryption seals a collection of the resource.
func (i *Import) Seals(r schema.GroupResource) bool { return i.store.Seals(r) }

// CanSeal reports whether the store has keys, so that ImportCollection.Seal can be set.
func (i *Import) CanSeal() bool { return !i.store.keys.Locked() }

// PutDocument stores a document, as Store.PutDocument does. It must not be called between Begin and End.
func (i *Import) PutDocument(ctx context.Context, name string, data []byte) error {
	switch {
	case i.done:
		return errors.New("the import is over")
	case i.c != nil:
		return fmt.Errorf("%s has not been ended", i.what.Identity)
	}
	return i.store.PutDocument(ctx, name, data)
}

// Abort ends the import and removes its files. After Commit or an earlier Abort it does nothing.
func (i *Import) Abort() error {
	if i.done {
		return nil
	}
	i.done = true
	if i.c != nil {
		i.store.commits.Drop(i.c.core)
	}
	if err := errors.Join(i.store.Close(), i.file.Abort()); err != nil {
		return fmt.Errorf("give up making the store %s: %w", i.file.Path, err)
	}
	return nil
}

// Commit gives the store its name, once all records are on the disk. If Commit fails it removes the files of the
// import. It fails with ErrExists if a file of that name has appeared meanwhile, and does not touch that file.
func (i *Import) Commit(ctx context.Context) error {
	if i.done {
		return fmt.Errorf("make the store %s: it has been committed or aborted", i.file.Path)
	}
	err := i.commit(ctx)
	if err != nil {
		return fmt.Errorf("make the store %s: %w", i.file.Path, errors.Join(err, i.Abort()))
	}
	return nil
}

func (i *Import) commit(ctx context.Context) error {
	if i.c != nil {
		return fmt.Errorf("%s has not been ended", i.what.Identity)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := i.store.Close(); err != nil { // no fsync follows: bbolt has synced each transaction
		return err
	}
	if err := i.store.Err(); err != nil {
		return err
	}
	if err := i.file.TakeName(i.store.logger()); err != nil {
		return err
	}
	i.done = true
	return nil
}

// rawCodec fails to encode and decode.
type rawCodec struct{ name string }

var errRaw = errors.New("an import takes records, no objects")

func (c rawCodec) Name() string                                        { return c.name }
func (c rawCodec) Fingerprint() string                                 { return "" }
func (c rawCodec) Append(dst []byte, _ runtime.Object) ([]byte, error) { return dst, errRaw }
func (c rawCodec) Decode([]byte) (runtime.Object, error)               { return nil, errRaw }
func (c rawCodec) Check(runtime.Object) error                          { return errRaw }

// importBytes is the approximate size of a transaction.
const importBytes = 4 << 20

// maxTextLen is the maximum length in bytes of the UID, the resourceVersion and the encoding of an imported record.
const maxTextLen = 1 << 10

// Begin begins a collection. It fails if the store already has that collection, or if another collection has been begun
// and not ended.
func (i *Import) Begin(ctx context.Context, what ImportCollection) error {
	id, err := what.Identity.Canonical()
	switch {
	case i.done:
		err = errors.New("the import is over")
	case err != nil:
	case i.c != nil:
		err = fmt.Errorf("%s has not been ended", i.what.Identity)
	default:
		err = i.begin(ctx, id, what)
	}
	if err != nil {
		return fmt.Errorf("import %s: %w", what.Identity, err)
	}
	return nil
}

func (i *Import) begin(ctx context.Context, id entry.Identity, what ImportCollection) error {
	err := i.store.file.View(ctx, func(tx *bolt.Tx) error {
		if _, err := engine.CollectionBucket(tx, id.ID()); err == nil {
			return errors.New("the store already has it; a collection can be imported only once")
		}
		return nil
	})
	if err != nil {
		return err
	}
	c, err := i.store.Collection(ctx, id, CollectionOptions{
		Codec: rawCodec{what.Attributes.Codec}, Resource: what.Resource, Residency: None, Compression: i.compression,
		Seal: what.Seal,
	})
	if err != nil {
		return err
	}
	what.Identity = id
	i.c, i.what, i.last = c, what, ""
	i.list, err = c.core.Begin(ctx, engine.ReplaceOptions{Attributes: what.Attributes})
	return err
}

// Add adds a record to the collection. The caller may reuse r.Payload afterwards.
func (i *Import) Add(ctx context.Context, r entry.Entry) error {
	err := i.validate(r)
	if err == nil {
		r.Payload = bytes.Clone(r.Payload)
		i.last, i.page = r.Key, append(i.page, r)
		i.bytes += 128 + len(r.Key) + len(r.UID) + len(r.ResourceVersion) + len(r.Encoding) + len(r.Payload)
		if i.bytes >= importBytes {
			err = i.flush(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("import %s: %w", i.what.Identity, err)
	}
	return nil
}

func (i *Import) validate(r entry.Entry) error {
	switch {
	case i.done || i.c == nil:
		return errors.New("no collection has been begun")
	case len(r.Key) == 0 || len(r.Key) > entry.MaxKey:
		return fmt.Errorf("a key of %d bytes, %s: only 1 to %d bytes can be stored", len(r.Key), base.PrintableKey(r.Key),
			entry.MaxKey)
	case r.Key <= i.last:
		return fmt.Errorf("key %s was added after %s: records must be in key order, each once", base.PrintableKey(r.Key),
			base.PrintableKey(i.last))
	case max(len(r.UID), len(r.ResourceVersion), len(r.Encoding)) > maxTextLen:
		return fmt.Errorf("record %s has a UID, resourceVersion or encoding of more than the %d bytes that can be stored",
			base.PrintableKey(r.Key), maxTextLen)
	case r.Encoding == "":
		return fmt.Errorf("record %s has no encoding", base.PrintableKey(r.Key))
	}
	return nil
}

// End ends the collection with the given state, and returns the number of its records.
func (i *Import) End(ctx context.Context, as ImportState) (objects int, err error) {
	if i.done || i.c == nil {
		return 0, errors.New("import: no collection has been begun")
	}
	if err = as.validate(); err == nil {
		objects, err = i.end(ctx, as)
	}
	if err == nil {
		err = i.c.Close()
	}
	if err != nil {
		return 0, fmt.Errorf("import %s: %w", i.what.Identity, err)
	}
	i.c = nil
	return objects, nil
}

func (i *Import) end(ctx context.Context, as ImportState) (objects int, err error) {
	if err := i.flush(ctx); err != nil {
		return 0, err
	}
	i.list.As = func(info *entry.Info) { info.Complete, info.MustRelist = as.Complete, as.MustRelist }
	end := entry.Batch{ResourceVersion: as.ResourceVersion, LastContact: as.LastContact}
	if _, err := i.list.Commit(ctx, end); err != nil {
		return 0, err
	}
	if err := i.store.Flush(ctx); err != nil {
		return 0, err
	}
	info, err := i.c.core.Info(ctx)
	return info.Objects, err
}

func (i *Import) flush(ctx context.Context) error {
	if err := i.list.Entries(ctx, i.page); err != nil {
		return err
	}
	i.page, i.bytes = i.page[:0], 0
	return i.store.Flush(ctx)
}

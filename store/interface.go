package store

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// Reader reads one collection of objects: by key, by index, and by a Query, at any time and from any number of
// goroutines.
//
// Each call sees one state, that after some batch, with what has not been committed yet (Iterate and Each: one for each
// page), and holds no transaction when it returns. Objects are shared and must not be modified.
type Reader interface {
	// Info returns the collection's state.
	Info(ctx context.Context) (Info, error)

	// Get returns the object with that key, or nil if there is none.
	Get(ctx context.Context, key string) (runtime.Object, error)
	// List returns every object, in key order; on an error, those that could be read.
	List(ctx context.Context) ([]runtime.Object, error)
	// Keys returns every key, in order; on an error, those that could be read.
	Keys(ctx context.Context) ([]string, error)
	// Iterate calls fn for each object whose key is after the given one, in
	// key order, a page at a time: each page is one transaction, closed before
	// fn is called. It stops at the first error and returns it.
	Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error
	// Select returns the objects that q selects, in key order; on an error, those that could be read.
	// It fails with ErrNoField if objects have no such field.
	Select(ctx context.Context, q Query) ([]runtime.Object, error)
	// Each is Iterate for the objects that q selects.
	Each(ctx context.Context, q Query, fn func(key string, obj runtime.Object) error) error

	// ByIndex returns the objects that the named index files under value. Like the other look-ups it waits while the index
	// is being built, and fails if that has failed, or will not be tried: see AddIndexers.
	ByIndex(ctx context.Context, index, value string) ([]runtime.Object, error)
	// IndexKeys returns their keys.
	IndexKeys(ctx context.Context, index, value string) ([]string, error)
	// IndexValues returns every value of the named index, in order.
	IndexValues(ctx context.Context, index string) ([]string, error)
	// Indexers returns the index functions.
	Indexers() cache.Indexers
}

// Interface is one collection of objects with its resourceVersion.
// *Collection keeps it in a file, *Memory in memory. There is one writer (the
// informer's loop); readers are as many as like.
type Interface interface {
	Reader

	// Apply takes in the batch, its index entries and its resourceVersion in one step: reads see all of it or nothing. It
	// is in the file after the next commit, whole, and with everything before it; see Options.CommitInterval. On error
	// nothing was taken in. Objects belong to the store then, and must not be modified.
	Apply(ctx context.Context, b Batch) (Result, error)
	// BeginReplace starts to take in a list. One at a time; the other writing
	// methods fail until it is committed or aborted.
	BeginReplace(ctx context.Context, o ReplaceOptions) (Replacement, error)
	// SetMustRelist makes the contents not resumable, for the given reason.
	SetMustRelist(ctx context.Context, reason string) error

	// Refs returns the identities of the objects whose keys follow the given one, in key order, at most limit of them: as
	// their records say, with what is pending over them, and not as they may be in memory. Where an object in memory is in
	// another state, or one of the two is missing, the resourceVersion and the UID are empty, so that it is like nothing
	// that a server has.
	Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error)

	// AddIndexers adds index functions. The indexes are built in the background, and look-ups in one wait for that. So a
	// function must not look anything up in the collection. versions names functions whose results are the same as long as their version is, so that the next
	// process need not rebuild their indexes. It may be nil: a function without a version may depend on a flag, so its
	// index is built anew by each process. It waits for the disk as long as ctx lasts.
	AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error

	// Indexer returns the collection as a cache.Indexer of client-go.
	Indexer() *Indexer
}

// ReplaceOptions are the options of BeginReplace.
type ReplaceOptions struct {
	// Rewrite stores every body anew even where UID and resourceVersion are unchanged (unless it is the same to the byte,
	// and stored as CollectionOptions.Compression has it), and reports those whose object differs by apiequality.Semantic.
	Rewrite bool
	// Attributes are stored with the list.
	Attributes entry.Attributes
}

// Replacement takes in a list page by page. Over a complete collection it is a diff: nothing is visible until Commit,
// but for what is too large to be held (package documentation, "A list"). Over an incomplete one (a cold start) each
// page is visible at once, and Commit marks the collection complete.
//
// A method that fails has changed nothing, and can be called again with the same arguments, so that room can be waited
// for.
type Replacement interface {
	// Page takes the next items of the list. The result has the changes that can be seen from now on; the others come
	// from Commit (Result.Staged). Items that the caller refused are in leftOut: what is stored of them stays, and they
	// are recorded.
	Page(ctx context.Context, items []runtime.Object, leftOut ...entry.LeftOut) (Result, error)
	// Event folds in an event that was watched while the list was paged. An
	// event older than the listed state of its object is ignored, and so is an item
	// of a later page that is older than the event. The result is as that of Page.
	Event(ctx context.Context, op Op) (Result, error)
	// Commit puts what was held into the collection, with the resourceVersion that covers the list, and b.LastContact;
	// b.Ops must be empty. It is in the file after the next commit, as what Apply was given is. If there is much it does a
	// part, and the result says More: call it again. Until the last part Info.MustRelist is set. Deletes come first (a
	// Deleted has no New), then the other changes, each in key order.
	Commit(ctx context.Context, b Batch) (Result, error)
	// Abort forgets what is held. It does nothing after the last Commit. What has been told stays, in a collection that is
	// not complete, or must be listed anew; the next list in this process is a diff over it.
	Abort()
}

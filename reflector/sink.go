package reflector

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/entry"
)

// Checkpoint is what the sink holds when the reflector starts.
type Checkpoint struct {
	// ResourceVersion to watch from; empty if nothing can be resumed.
	ResourceVersion string
	// Relist is why the contents must be listed anew before HasSynced although they can be
	// served; empty if they can be resumed.
	Relist Reason
	// Newest are a few stored objects of the highest resourceVersion, for the
	// guard against a rewound server. May be empty.
	Newest []entry.ObjectRef
	// LeftOut are objects that the sink was given in this state, and could not take in. They are looked up before the
	// watch begins, and delivered again.
	LeftOut []entry.ObjectRef
	// Large: so many objects are held that Options.Same is not to be asked.
	Large bool
}

// Sink takes the stream of what happened. The reflector calls it from one
// goroutine, in order. Each method may block while the sink is full, and
// returns an error only when ctx has ended or the sink is closed for good: the reflector
// then stops.
type Sink interface {
	// Checkpoint returns what is held. It is called once, when Run starts.
	Checkpoint(ctx context.Context) (Checkpoint, error)

	// Event delivers Added, Modified or Deleted, and the resourceVersion where the stream stands after
	// it: the object's, or empty if that cannot be compared, or if the object is one of Checkpoint.LeftOut that is
	// delivered again (then the place in the stream is unchanged).
	// Between BeginReplace and EndReplace it is an event that happened while the list was paged: it
	// counts more than any page's item of that key, whichever comes first.
	Event(ctx context.Context, t watch.EventType, obj runtime.Object, resourceVersion string) error
	// Bookmark says that everything up to resourceVersion has been delivered. It never comes
	// between BeginReplace and EndReplace.
	Bookmark(ctx context.Context, resourceVersion string) error

	// BeginReplace starts a list.
	BeginReplace(ctx context.Context, reason Reason) error
	// Page delivers the next items of the list. One more page is fetched meanwhile, and none beyond: what is held of a
	// list is bounded if Page returns no sooner than the items are taken in.
	Page(ctx context.Context, items []runtime.Object) error
	// Known delivers a page of the list by identity: of the objects that are held in exactly that state, same UID and
	// resourceVersion, what is held counts as listed, as if Page had brought it. It returns the others. They are not in
	// the list by that: Page brings them, unless they have been deleted since, or the list is aborted. It is called only
	// with Options.ListMetadata.
	Known(ctx context.Context, refs []entry.ObjectRef) (lacking []entry.ObjectRef, err error)
	// EndReplace ends it: pages and events since BeginReplace are the state at
	// resourceVersion. It is empty if the server's cannot be compared: then the state cannot be resumed.
	EndReplace(ctx context.Context, resourceVersion string) error
	// AbortReplace forgets the list: another begins, or the reflector stops (then ctx has ended).
	AbortReplace(ctx context.Context) error

	// MustList says that what is held cannot be resumed, for a reason that Lasts: a list follows, or, if Run ends before
	// that, the next Checkpoint has to ask for one. It never comes between BeginReplace and EndReplace.
	MustList(ctx context.Context, reason Reason) error

	// Synced says that everything the server had when it was last contacted
	// has been delivered: after a resume that has drained, and after a relist.
	// It is called after each of them.
	Synced(ctx context.Context) error
}

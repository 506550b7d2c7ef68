package reflector

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/entry"
)

// Checkpoint describes the contents of the sink when the reflector starts.
type Checkpoint struct {
	// ResourceVersion is where the watch of the new run resumes; "" if the run must list first.
	ResourceVersion string
	// Relist is the reason why the sink's objects must be listed before HasSynced, although they can be served
	// meanwhile; "" if the watch can resume.
	Relist Reason
	// Newest lists a few stored objects with the highest resourceVersions. The reflector compares them with the
	// server's, to detect a server that was restored from a backup. May be empty.
	Newest []entry.ObjectRef
	// LeftOut lists objects that were delivered to the sink in this state but could not be stored. The reflector
	// requests them again once the watch has caught up with the server, and delivers them before Synced.
	LeftOut []entry.ObjectRef
}

// Sink receives the stream of lists and events. The reflector calls it from one goroutine, in order. Each method may
// block while the sink cannot accept more. A method returns an error only if ctx has ended or the sink is closed for
// good; the reflector then stops.
type Sink interface {
	// Checkpoint returns the state of the stored contents: where a watch can resume, or why a list is due. It is called
	// once, when Run starts.
	Checkpoint(ctx context.Context) (Checkpoint, error)

	// Event delivers Added, Modified or Deleted, and the resourceVersion of the stream after it: the highest so far. It is
	// "" if that cannot be compared, or if an object of Checkpoint.LeftOut is delivered again, which does not move the
	// stream.
	//
	// Between BeginReplace and EndReplace it is an event that happened during the list. It replaces the pages' item of
	// that key, whichever arrives first.
	Event(ctx context.Context, t watch.EventType, obj runtime.Object, resourceVersion string) error
	// Bookmark reports that everything up to resourceVersion has been delivered. It is never called between BeginReplace
	// and EndReplace.
	Bookmark(ctx context.Context, resourceVersion string) error

	// BeginReplace starts a list, which replaces the sink's objects.
	BeginReplace(ctx context.Context, reason Reason) error
	// Page delivers the next items of the list. At most one more page is fetched meanwhile, so a list needs bounded memory
	// if Page returns only once the items are stored.
	Page(ctx context.Context, items []runtime.Object) error
	// Known delivers a page of the list by reference. An object that the sink holds in exactly that state (same UID and
	// resourceVersion) counts as listed, as if Page had delivered it. Known returns the other references. Page delivers
	// their objects later, unless they have been deleted since or the list is aborted. It is called only with
	// Options.ListMetadata.
	Known(ctx context.Context, refs []entry.ObjectRef) (missing []entry.ObjectRef, err error)
	// EndReplace ends the list: the pages and events since BeginReplace are the state at resourceVersion. It is "" if the
	// server's resourceVersion cannot be compared: then the state cannot be resumed.
	EndReplace(ctx context.Context, resourceVersion string) error
	// AbortReplace gives up the list in progress. Another list follows, or the reflector stops because ctx has ended.
	AbortReplace(ctx context.Context) error

	// MustList reports that the contents cannot be resumed, for a reason that Lasts: a list follows. If Run ends before
	// that list, the next Checkpoint has to request one. It is never called between BeginReplace and EndReplace.
	MustList(ctx context.Context, reason Reason) error

	// Synced reports that the sink has received the server's state at the last connect. It is called after each list,
	// and after each resumed watch once it has caught up.
	Synced(ctx context.Context) error
}

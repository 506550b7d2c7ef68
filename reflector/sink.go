package reflector

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/entry"
)

// Checkpoint describes the contents of the Sink when the reflector starts.
type Checkpoint struct {
	// ResourceVersion is the resourceVersion from which the new run watches; "" if the run must list first.
	ResourceVersion string
	// Relist is the reason why the Sink's objects must be listed before Sink.Synced, although they can be served
	// meanwhile; "" if the watch can resume.
	Relist Reason
	// Newest lists a few stored objects with the highest resourceVersions. The reflector compares them with the
	// server's objects, to detect a server that was restored from a backup. May be empty.
	Newest []entry.ObjectRef
	// LeftOut lists objects that were delivered to the Sink in this state but could not be stored. The reflector
	// requests these objects once the watch has caught up with the server, and delivers them before Synced.
	LeftOut []entry.ObjectRef
}

// Sink receives the stream of lists and events. The reflector calls a Sink from one goroutine, in order. Each method
// may block while the Sink cannot accept more. A method returns an error only if ctx has ended or the Sink is closed
// for good; the reflector then stops.
type Sink interface {
	// Checkpoint returns the state of the stored contents: where a watch can resume, or why a list is due. The
	// reflector calls Checkpoint once, when Run starts.
	Checkpoint(ctx context.Context) (Checkpoint, error)

	// Event delivers Added, Modified or Deleted, and the highest resourceVersion so far. The resourceVersion is "" if
	// it cannot be compared, and for an object of Checkpoint.LeftOut that is delivered again.
	//
	// Between BeginReplace and EndReplace an event replaces the pages' item of the same key, even if that item arrives
	// later.
	Event(ctx context.Context, t watch.EventType, obj runtime.Object, resourceVersion string) error
	// Bookmark reports that all events up to resourceVersion have been delivered. No list is then in progress.
	Bookmark(ctx context.Context, resourceVersion string) error

	// BeginReplace starts a list, which replaces the Sink's objects.
	BeginReplace(ctx context.Context, reason Reason) error
	// Page delivers the next items of the list. At most one more page is fetched meanwhile, so a list needs bounded
	// memory if Page returns only once the items are stored.
	Page(ctx context.Context, items []runtime.Object) error
	// Known delivers a page of the list by reference. An object that the Sink holds with the same UID and
	// resourceVersion counts as listed, as if Page had delivered it. Known returns the other references. Page delivers
	// their objects later, unless they have been deleted since or the list is aborted. Known is called only with
	// Options.ListMetadata.
	Known(ctx context.Context, refs []entry.ObjectRef) (missing []entry.ObjectRef, err error)
	// EndReplace ends the list: the pages and events since BeginReplace are the state at resourceVersion. The
	// resourceVersion is "" if the server's cannot be compared: then a watch cannot resume from the state.
	EndReplace(ctx context.Context, resourceVersion string) error
	AbortReplace(ctx context.Context) error

	// MustList reports that the contents cannot be resumed, for a reason for which Reason.Lasts is true: a list
	// follows. If Run ends before that list, the next Checkpoint has to request a list. MustList is never called
	// between BeginReplace and EndReplace.
	MustList(ctx context.Context, reason Reason) error

	// Synced reports that the Sink has received the server's state at the last connect: after each list, and after each
	// resumed watch once the watch has caught up.
	Synced(ctx context.Context) error
}

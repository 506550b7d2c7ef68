package serve

import (
	"fmt"

	"github.com/larder-dev/larder/entry"
)

// warn adds a Warning header to the response; kubectl prints it.
func (q *request) warn(text string, args ...any) {
	q.w.Header().Add("Warning", fmt.Sprintf("299 - %q", fmt.Sprintf(text, args...)))
}

// warnOfDeprecation adds the Warning that the requested version of the kind is deprecated, if it is.
func (q *request) warnOfDeprecation() {
	if q.deprecated != "" {
		q.w.Header().Add("Warning", q.deprecated)
	}
}

// warnOfNotes adds a Warning for each known defect of the collection that answers the request.
func (q *request) warnOfNotes() {
	for _, n := range q.Handler.options.Notes(q.collection.Info) {
		if n.Kind == entry.NoteAge { // it applies to all resources, so no resource is named
			q.warn("larder: %s", n.Text)
		} else {
			q.warn("larder: %s: %s", q.collection.Identity.GroupResource(), n.Text)
		}
	}
}

package serve

import (
	"fmt"

	"github.com/larder-dev/larder/entry"
)

// warn adds a Warning, which kubectl prints.
func (q *request) warn(text string, args ...any) {
	q.w.Header().Add("Warning", fmt.Sprintf("299 - %q", fmt.Sprintf(text, args...)))
}

// warnOfDeprecation adds the Warning of a version that is deprecated.
func (q *request) warnOfDeprecation() {
	if q.deprecated != "" {
		q.w.Header().Add("Warning", q.deprecated)
	}
}

// warnOfNotes warns of the known defects of the contents.
func (q *request) warnOfNotes() {
	for _, n := range q.Handler.options.Notes(q.collection.Info) {
		if n.Kind == entry.NoteAge { // the same for all resources
			q.warn("larder: %s", n.Text)
		} else {
			q.warn("larder: %s: %s", q.collection.Identity.GroupResource(), n.Text)
		}
	}
}

package serve

import (
	"fmt"

	"github.com/larder-dev/larder/entry"
)

func (q *request) warn(text string, args ...any) {
	q.w.Header().Add("Warning", fmt.Sprintf("299 - %q", fmt.Sprintf(text, args...)))
}

func (q *request) warnOfDeprecation() {
	if q.deprecated != "" {
		q.w.Header().Add("Warning", q.deprecated)
	}
}

func (q *request) warnOfNotes() {
	for _, n := range q.Handler.options.Notes(q.collection.Info) {
		if n.Kind == entry.NoteAge { // a note on age applies to all resources, so no resource is named
			q.warn("larder: %s", n.Text)
		} else {
			q.warn("larder: %s: %s", q.collection.Identity.GroupResource(), n.Text)
		}
	}
}

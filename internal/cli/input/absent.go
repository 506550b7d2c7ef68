package input

import (
	"fmt"
	"strings"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
)

// storeSecrets says what has Secrets stored.
const storeSecrets = "larder sync keeps secrets in memory only, " +
	"unless it is given a key (--key-file FILE) or --persist-secrets"

// SaveElsewhere is storeSecrets where a snapshot is to have them; it takes their name.
const SaveElsewhere = storeSecrets + "; larder snapshot save FILE %s, without --from, takes them from the server"

// InMemory returns those of the collections that f takes and that a running sync has in memory only.
func InMemory(all []source.Collection, f snapshot.Filter) []source.Collection {
	var memory []source.Collection
	for _, c := range all {
		if !c.Persistent && f.Takes(c.Saved()) {
			memory = append(memory, c)
		}
	}
	return memory
}

// NoteLeftOut says which collections were there when a snapshot was taken, and are not in it.
func NoteLeftOut(s command.IO, path string, status source.Status) {
	if status.Snapshot == nil {
		return
	}
	for _, left := range status.Snapshot.LeftOut {
		fmt.Fprintf(s.Err, "note: not in %s: %s\n", path, terminal.OneLine(left))
	}
}

// NotePart says of which of the collections that f takes a snapshot has a part only.
func NotePart(s command.IO, path string, all []source.Collection, f snapshot.Filter) {
	for _, c := range all {
		if len(c.Filtered) > 0 && f.Takes(c.Saved()) {
			fmt.Fprintln(s.Err, "note:", partOf(path, c))
		}
	}
}

// NoteUnfinished says which of the collections that f takes are not all that the server had: what they do not have need
// not be gone.
func NoteUnfinished(s command.IO, path string, all []source.Collection, f snapshot.Filter) {
	for _, c := range all {
		if why := unfinished(c); MissesObjects(c) && f.Takes(c.Saved()) {
			fmt.Fprintf(s.Err, "note: %s, %s: %s\n", path, Label(c), why)
		}
	}
}

// partOf says what part of a collection was saved.
func partOf(path string, c source.Collection) string {
	return fmt.Sprintf("%s does not have all %s: %s", path, c.Named(),
		strings.Join(c.Filtered, "; "))
}

// NoteRedacted says of which of the collections that f takes values were redacted when they were saved. remark, if
// there is one, says what that means for the command.
func NoteRedacted(s command.IO, path string, all []source.Collection, f snapshot.Filter, remark string) {
	for _, c := range all {
		if RedactionOf(c) != "" && f.Takes(c.Saved()) {
			fmt.Fprintln(s.Err, "note:", redactedOf(path, c)+remark)
		}
	}
}

// redactedOf says what was replaced in a collection.
func redactedOf(path string, c source.Collection) string {
	return fmt.Sprintf("%s has %s redacted: %s", path, c.Named(), RedactionOf(c))
}

// RelistRedacted is how the reason begins for which what was restored from a redacted snapshot has to be listed.
const RelistRedacted = "objects were redacted"

// RedactionOf is what was replaced, or "". A store that a redacted snapshot was restored to says it in MustRelist,
// until it has been listed.
func RedactionOf(c source.Collection) string {
	if len(c.Redacted) > 0 {
		return strings.Join(c.Redacted, "; ")
	}
	_, what, ok := strings.Cut(c.MustRelist, RelistRedacted)
	if what = strings.Trim(what, " ()"); ok && what == "" {
		return "some of their values"
	}
	return what
}

// MissesObjects says whether a collection is incomplete. One that is to be listed for what was redacted alone has all
// objects.
func MissesObjects(c source.Collection) bool {
	return !c.Complete && !strings.HasPrefix(c.MustRelist, RelistRedacted)
}

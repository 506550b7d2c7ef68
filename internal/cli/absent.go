package cli

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

// saveElsewhere is storeSecrets where a snapshot is to have them; it takes their name.
const saveElsewhere = storeSecrets + "; larder snapshot save FILE %s, without --from, takes them from the server"

// inMemory returns those of the collections that f takes and that a running sync has in memory only.
func inMemory(all []source.Collection, f snapshot.Filter) []source.Collection {
	var memory []source.Collection
	for _, c := range all {
		if !c.Persistent && f.Takes(c.Saved()) {
			memory = append(memory, c)
		}
	}
	return memory
}

// noteLeftOut says which collections were there when a snapshot was taken, and are not in it.
func noteLeftOut(s command.IO, path string, status source.Status) {
	if status.Snapshot == nil {
		return
	}
	for _, left := range status.Snapshot.LeftOut {
		fmt.Fprintf(s.Err, "note: not in %s: %s\n", path, terminal.OneLine(left))
	}
}

// notePart says of which of the collections that f takes a snapshot has a part only.
func notePart(s command.IO, path string, all []source.Collection, f snapshot.Filter) {
	for _, c := range all {
		if len(c.Filtered) > 0 && f.Takes(c.Saved()) {
			fmt.Fprintln(s.Err, "note:", partOf(path, c))
		}
	}
}

// noteUnfinished says which of the collections that f takes are not all that the server had: what they do not have need
// not be gone.
func noteUnfinished(s command.IO, path string, all []source.Collection, f snapshot.Filter) {
	for _, c := range all {
		if why := unfinished(c); missesObjects(c) && f.Takes(c.Saved()) {
			fmt.Fprintf(s.Err, "note: %s, %s: %s\n", path, label(c), why)
		}
	}
}

// partOf says what part of a collection was saved.
func partOf(path string, c source.Collection) string {
	return fmt.Sprintf("%s does not have all %s: %s", path, resourceOf(c),
		strings.Join(c.Filtered, "; "))
}

// noteRedacted says of which of the collections that f takes values were redacted when they were saved. remark, if
// there is one, says what that means for the command.
func noteRedacted(s command.IO, path string, all []source.Collection, f snapshot.Filter, remark string) {
	for _, c := range all {
		if redactionOf(c) != "" && f.Takes(c.Saved()) {
			fmt.Fprintln(s.Err, "note:", redactedOf(path, c)+remark)
		}
	}
}

// redactedOf says what was replaced in a collection.
func redactedOf(path string, c source.Collection) string {
	return fmt.Sprintf("%s has %s redacted: %s", path, resourceOf(c), redactionOf(c))
}

// relistRedacted is how the reason begins for which what was restored from a redacted snapshot has to be listed.
const relistRedacted = "objects were redacted"

// redactionOf is what was replaced, or "". A store that a redacted snapshot was restored to says it in MustRelist,
// until it has been listed.
func redactionOf(c source.Collection) string {
	if len(c.Redacted) > 0 {
		return strings.Join(c.Redacted, "; ")
	}
	_, what, ok := strings.Cut(c.MustRelist, relistRedacted)
	if what = strings.Trim(what, " ()"); ok && what == "" {
		return "some of their values"
	}
	return what
}

// missesObjects says whether a collection is incomplete. One that is to be listed for what was redacted alone has all
// objects.
func missesObjects(c source.Collection) bool {
	return !c.Complete && !strings.HasPrefix(c.MustRelist, relistRedacted)
}

package input

import (
	"fmt"
	"strings"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
)

const storeSecrets = "larder sync keeps secrets in memory only, " +
	"unless it is given a key (--key-file FILE) or --persist-secrets"

// SaveElsewhere is the hint for a snapshot without Secrets; its %s is the name of the Secrets to save.
const SaveElsewhere = storeSecrets + "; larder snapshot save FILE %s, without --from, takes them from the server"

func InMemory(all []source.Collection, f snapshot.Filter) []source.Collection {
	var memory []source.Collection
	for _, c := range all {
		if !c.Persistent && f.Takes(c.Saved()) {
			memory = append(memory, c)
		}
	}
	return memory
}

func NoteLeftOut(s command.IO, path string, status source.Status) {
	if status.Snapshot == nil {
		return
	}
	for _, left := range status.Snapshot.LeftOut {
		fmt.Fprintf(s.Err, "note: not in %s: %s\n", path, terminal.OneLine(left))
	}
}

func NotePart(s command.IO, path string, all []source.Collection, f snapshot.Filter) {
	for _, c := range all {
		if len(c.Filtered) > 0 && f.Takes(c.Saved()) {
			fmt.Fprintln(s.Err, "note:", partOf(path, c))
		}
	}
}

// NoteUnfinished prints a note for each incomplete collection selected by f, because objects missing from the
// collection may exist on the server.
func NoteUnfinished(s command.IO, path string, all []source.Collection, f snapshot.Filter) {
	for _, c := range all {
		if why := unfinished(c); MissesObjects(c) && f.Takes(c.Saved()) {
			fmt.Fprintf(s.Err, "note: %s, %s: %s\n", path, Label(c), why)
		}
	}
}

func partOf(path string, c source.Collection) string {
	return fmt.Sprintf("%s does not have all %s: %s", path, c.Named(),
		strings.Join(c.Filtered, "; "))
}

// NoteRedacted prints a note for each collection selected by f that has redacted values. remark, which may be empty,
// says how the command handles redacted values.
func NoteRedacted(s command.IO, path string, all []source.Collection, f snapshot.Filter, remark string) {
	for _, c := range all {
		if RedactionOf(c) != "" && f.Takes(c.Saved()) {
			fmt.Fprintln(s.Err, "note:", redactedOf(path, c)+remark)
		}
	}
}

func redactedOf(path string, c source.Collection) string {
	return fmt.Sprintf("%s has %s redacted: %s", path, c.Named(), RedactionOf(c))
}

// RelistRedacted begins MustRelist, the reason for a forced list, of a collection that was restored from a redacted
// snapshot.
const RelistRedacted = "objects were redacted"

// RedactionOf describes the redacted values of a collection; "" without any. In a store restored from a redacted
// snapshot, the reason for the forced list (MustRelist) holds the description until that list.
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

// MissesObjects reports whether a collection may lack objects. A collection that must be listed again only because
// values were redacted has all objects.
func MissesObjects(c source.Collection) bool {
	return !c.Complete && !strings.HasPrefix(c.MustRelist, RelistRedacted)
}

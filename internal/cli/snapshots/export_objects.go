package snapshots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
)

type exporting struct {
	s       command.IO
	src     snapshot.Source
	secrets bool
	raw     bool
	objects int
	// superseded holds the collections of which nothing is exported, because other collections of the resource are more
	// reliable (see overlaps).
	superseded map[entry.Identity]bool
	// done is called when all records have been read. Then absent prints the objects that the file lacks, and after that
	// notes are printed.
	done, absent func()
	notes        []string
	exported     []snapshot.Collection
}

type exportTo interface {
	object(c snapshot.Collection, object map[string]any) error
}

// run exports every object once, although several collections may contain it (see overlaps). It skips damaged blocks of
// a snapshot, and returns the error about them after it has read all other records.
func (e *exporting) run(ctx context.Context, to exportTo) error {
	all, err := e.src.Collections(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, exportedFirst)
	var over overlaps
	var missing []error
	for i, c := range all {
		if !over.takes(c) {
			e.noteNewer(c, all)
			continue
		}
		if why := e.leavesOut(c); why != "" {
			e.notes = append(e.notes, fmt.Sprintf("%s: %s", input.NameOf(c), why))
			continue
		}
		e.exported = append(e.exported, c)
		over.last = i+1 == len(all) || input.NameOf(all[i+1]) != input.NameOf(c)
		err := e.collection(ctx, c, to, &over)
		if isMissing(err) {
			missing = append(missing, err)
		} else if err != nil {
			return err
		}
		over.end(c)
	}
	e.superseded = over.superseded
	return errors.Join(missing...)
}

func isMissing(err error) bool {
	var missing *snapshot.MissingError
	return errors.As(err, &missing)
}

// noteNewer adds a note if collection c, of which nothing is exported, had contact with the server later than the
// collections exported instead.
func (e *exporting) noteNewer(c snapshot.Collection, all []snapshot.Collection) {
	newer := func(o snapshot.Collection) bool {
		return believed(o) && o.Identity.GroupResource() == c.Identity.GroupResource() &&
			(o.Identity.Namespace == "" || o.Identity.Namespace == c.Identity.Namespace) &&
			!o.LastContact.Before(c.LastContact)
	}
	if !slices.ContainsFunc(all, newer) {
		e.notes = append(e.notes, fmt.Sprintf("%s (%s): newer, but a part of what is exported", input.NameOf(c),
			input.ScopeOfID(c.Identity)))
	}
}

func (e *exporting) printResult() {
	e.done()
	e.absent()
	for _, note := range e.notes {
		fmt.Fprintln(e.s.Err, "note: not exported:", note)
	}
	printDefects(e.s, e.exported)
}

func (e *exporting) leavesOut(c snapshot.Collection) string {
	switch {
	case !e.secrets && c.Confidential() != "" && c.Identity.GroupResource() == input.Secrets.GroupResource():
		return "--include-secrets writes them as they are, --redact secrets without their values"
	case !e.secrets && c.Confidential() != "":
		return c.Confidential() + "; --include-secrets writes them as they are"
	case c.Identity.Representation == entry.Metadata && !e.raw:
		return "only their metadata is stored, which cannot be applied; --raw writes it"
	}
	return ""
}

func (e *exporting) collection(ctx context.Context, c snapshot.Collection, to exportTo, over *overlaps) error {
	decoder := snapshot.NewDecoder(c)
	unknown := 0
	err := e.src.Records(ctx, c.Identity, func(r entry.Entry) error {
		if !over.takesKey(r.Key) {
			return nil
		}
		u, err := decoder.Decode(r)
		if err == nil || errors.Is(err, snapshot.ErrUndecodable) {
			over.took(c, r.Key, err == nil)
		}
		if errors.Is(err, snapshot.ErrUndecodable) {
			unknown++
			return nil
		}
		if err != nil {
			return err
		}
		e.objects++
		return to.object(c, e.exportForm(u, c))
	})
	if err == nil && unknown > 0 {
		e.notes = append(e.notes, fmt.Sprintf("%s of %s, of a Go program's own type that larder cannot decode",
			command.CountedObjects(unknown), input.NameOf(c)))
	}
	return err
}

// setByServer lists the metadata fields that the API server sets, which are not exported.
var setByServer = []string{
	"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink", "deletionTimestamp",
	"deletionGracePeriodSeconds",
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// exportForm returns the object as it is exported: without fields that a new object cannot have. It may change u.
func (e *exporting) exportForm(u *unstructured.Unstructured, c snapshot.Collection) map[string]any {
	if u.GetKind() == "" && c.Resource.Kind != "" { // objects stored by typed clients have no kind, so it is added
		u.SetGroupVersionKind(c.Identity.GroupVersion().WithKind(c.Resource.Kind))
	}
	if e.raw {
		return u.Object
	}
	object := u.Object
	delete(object, "status")
	leaveOutGenerated(object)
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	for _, field := range setByServer {
		delete(meta, field)
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		if delete(annotations, lastApplied); len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	return object
}

type lineExport struct{ w io.Writer }

func (l lineExport) object(_ snapshot.Collection, object map[string]any) error {
	enc := json.NewEncoder(l.w)
	enc.SetEscapeHTML(false)
	return enc.Encode(object)
}

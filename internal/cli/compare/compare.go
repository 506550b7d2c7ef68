package compare

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

// Options says which objects and fields Run compares.
type Options struct {
	Filter snapshot.Filter
	Names  input.ObjectNames
	// Ignore lists paths of fields that are not compared, in the syntax of diff.Options.Ignore.
	Ignore []string
	// Counted is b with a progress bar, from which the records of b are read. Default: b itself.
	Counted snapshot.Source
}

// SkipSealed excludes a resource from the comparison if one of the files holds the resource encrypted and no key was
// given. asked selects the compared resources.
func SkipSealed(a, b *Side, asked snapshot.Filter) {
	for _, c := range slices.Concat(a.SealedOf(asked), b.SealedOf(asked)) {
		a.Skip(c.GVR())
		b.Skip(c.GVR())
	}
}

// Run calls fn for each difference between the files a and b. If a file is a snapshot that was saved with a filter,
// objects that the filter excluded are not compared. An error of reading a file is a SideError.
func Run(ctx context.Context, a, b *Side, o Options, fn func(diff.Change) error) (diff.Report, error) {
	if o.Counted == nil {
		o.Counted = b
	}
	ofA, err := selectAll(a, o.Filter, b.covers)
	if err != nil {
		return diff.Report{}, err
	}
	ofB, err := selectAll(o.Counted, o.Filter, a.covers)
	if err != nil {
		return diff.Report{}, err
	}
	if len(o.Names) > 0 {
		ofA, ofB = &named{ofA, o.Names}, &named{ofB, o.Names}
	}
	return diff.Compare(ctx, ofA, ofB, diff.Options{Ignore: o.Ignore}, fn)
}

type named struct {
	snapshot.Source
	names input.ObjectNames
}

func (n *named) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	return n.Source.Records(ctx, id, func(r entry.Entry) error {
		if !n.names.Take(id.GroupVersionResource, r.Key) {
			return nil
		}
		return fn(r)
	})
}

func selectAll(src snapshot.Source, filters ...snapshot.Filter) (snapshot.Source, error) {
	for _, f := range filters {
		if f.Empty() {
			continue
		}
		var err error
		if src, err = snapshot.Select(src, snapshot.SelectOptions{Filter: f}); err != nil {
			return nil, command.Usage(err)
		}
	}
	return src, nil
}

// Side is one of the two compared files. It is a snapshot.Source whose errors name the file.
type Side struct {
	// Name is "A" for the first file and "B" for the second.
	Name, Path string
	Source     source.Source
	Status     source.Status

	records snapshot.Source
	// covers is the filter with which this snapshot was saved. An object that the filter excludes is not reported as
	// missing.
	covers snapshot.Filter
	// sealed holds the collections whose objects are encrypted (sealed) and cannot be read, because no key was given.
	sealed  []source.Collection
	skipped []schema.GroupVersionResource
}

// SideError is an error of reading one of the files.
type SideError struct {
	Path string
	error
}

func (e *SideError) Unwrap() error { return e.error }

// NewSide returns an open file as one side of a comparison. withKey says that the file was opened with its encryption
// key.
func NewSide(name, path string, src source.Source, st source.Status, withKey bool) *Side {
	d := &Side{Name: name, Path: path, Source: src, records: source.Records(src), Status: st}
	if _, ok := src.(*source.File); ok && !withKey {
		for _, c := range st.Collections {
			if c.Sealed && c.Objects > 0 {
				d.sealed = append(d.sealed, c)
			}
		}
	}
	if file, ok := src.(*source.Snapshot); ok {
		if f := file.File().Manifest().Filter; f != nil {
			d.covers = snapshot.Filter{Namespaces: f.Namespaces, Labels: f.Labels, Fields: f.Fields}
		}
	}
	return d
}

// Skip excludes a resource from the comparison of the two files.
func (d *Side) Skip(gvr schema.GroupVersionResource) { d.skipped = append(d.skipped, gvr) }

// Collections implements snapshot.Source.
func (d *Side) Collections(ctx context.Context) ([]snapshot.Collection, error) {
	all, err := d.records.Collections(ctx)
	if err != nil {
		return nil, &SideError{d.Path, err}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c snapshot.Collection) bool {
		return slices.Contains(d.skipped, c.Identity.GroupVersionResource)
	}), nil
}

// SealedOf returns the collections selected by asked whose objects are encrypted and cannot be read.
func (d *Side) SealedOf(asked snapshot.Filter) []source.Collection {
	return slices.DeleteFunc(slices.Clone(d.sealed), func(c source.Collection) bool { return !asked.Takes(c.Saved()) })
}

// Records implements snapshot.Source. An error of fn is returned unchanged, not as a SideError.
func (d *Side) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	var failed error
	err := d.records.Records(ctx, id, func(r entry.Entry) error {
		failed = fn(r)
		return failed
	})
	if err == nil || failed != nil {
		return err
	}
	return &SideError{d.Path, err}
}

// PrintParts prints a note for each resource of which the files were compared only in part, unless asked selects
// exactly the compared part.
func PrintParts(s command.IO, a, b *Side, r diff.Report, asked snapshot.Filter) {
	for _, o := range r.Overlaps {
		if input.ScopeOfID(o.Scope) == "namespace "+strings.Join(asked.Namespaces, ", ") {
			continue
		}
		fmt.Fprintf(s.Err, "note: %s: compared is what both have: %s (A has %s, B %s)\n", input.NameOf(o.B),
			input.ScopeOfID(o.Scope),
			input.ScopeOfID(o.A.Identity), input.ScopeOfID(o.B.Identity))
	}
	a.printPart(s, b, asked)
	b.printPart(s, a, asked)
}

// printPart prints notes about what this file lacks: objects excluded by the filter of its save, left-out and redacted
// values, and known defects.
func (d *Side) printPart(s command.IO, other *Side, asked snapshot.Filter) {
	if len(asked.Resources) == 0 {
		input.NoteLeftOut(s, d.Path, d.Status)
	}
	if d.savedFromPart() {
		input.NotePart(s, d.Path, d.Status.Collections, asked)
	}
	d.printGaps(s, asked)
	input.PrintDefects(s, slices.DeleteFunc(slices.Clone(d.Status.Collections), func(c source.Collection) bool {
		return !asked.Takes(c.Saved())
	}))
	input.NoteRedacted(s, d.Path, d.Status.Collections, asked, "")
	if text := filterText(d.covers); text != "" && text != filterText(other.covers) && text != filterText(asked) {
		fmt.Fprintf(s.Err, "note: %s was saved with %s: compared is no more than that\n", d.Name, text)
	}
}

// Gap returns the name of this side if its collection of the resource is incomplete, and nil otherwise.
func (d *Side) Gap(id entry.Identity) []string {
	for _, c := range d.Status.Collections {
		if c.GVR() == id.GroupVersionResource && (id.Namespace == "" || c.Namespace == "" || c.Namespace == id.Namespace) &&
			input.MissesObjects(c) {
			return []string{d.Name}
		}
	}
	return nil
}

func (d *Side) printGaps(s command.IO, asked snapshot.Filter) {
	for _, c := range d.Status.Collections {
		if input.MissesObjects(c) && asked.Takes(c.Saved()) {
			why := cmp.Or(c.MustRelist, "the first list has not been finished")
			fmt.Fprintf(s.Err, "note: %s: %s is incomplete: %s\n", c.Named(), d.Name, why)
		}
	}
}

// savedFromPart reports whether the file is a snapshot of another snapshot that held only a part of the objects. The
// filter in covers does not include the filter of the first snapshot.
func (d *Side) savedFromPart() bool {
	known := 0
	for _, given := range []bool{len(d.covers.Namespaces) > 0, d.covers.Labels != "", d.covers.Fields != ""} {
		if given {
			known++
		}
	}
	return slices.ContainsFunc(d.Status.Collections, func(c source.Collection) bool { return len(c.Filtered) > known })
}

func filterText(f snapshot.Filter) string {
	var parts []string
	for _, ns := range f.Namespaces {
		parts = append(parts, "-n "+ns)
	}
	for _, part := range []struct{ name, value string }{{"-l ", f.Labels}, {"--field-selector ", f.Fields}} {
		if part.value != "" {
			parts = append(parts, part.name+part.value)
		}
	}
	return strings.Join(parts, " ")
}

// Object returns an object of this file as YAML, without its managedFields. It returns "" if the file does not contain
// the object, or if the object is confidential or excluded from the comparison.
func (d *Side) Object(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (string, error) {
	if slices.Contains(d.skipped, gvr) {
		return "", nil
	}
	for _, c := range d.Status.Collections {
		if c.GVR() != gvr || c.Saved().Confidential() != "" || c.Namespace != "" && c.Namespace != namespace {
			continue
		}
		var found *unstructured.Unstructured
		q := source.Query{Collection: c.ID, Namespace: namespace, Name: name}
		err := d.Source.Entries(ctx, q, func(e entry.Entry) (err error) {
			found, err = snapshot.NewDecoder(c.Saved()).Decode(e)
			return err
		})
		if err != nil {
			return "", &SideError{d.Path, err}
		}
		if found != nil {
			unstructured.RemoveNestedField(found.Object, "metadata", "managedFields")
			text, err := command.ToYAML(found)
			return string(text), err
		}
	}
	return "", nil
}

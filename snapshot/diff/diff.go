package diff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// Options are the options of Compare. The zero value works.
type Options struct {
	// Ignore has the paths that are not compared; nil means DefaultIgnore, and an empty list ignores nothing. Examples of
	// paths: status, metadata.annotations["a.b/c"], spec.containers[*].image. A path covers all items of a list.
	Ignore []string
}

// Validate returns an error if a path in o.Ignore cannot be parsed.
func (o Options) Validate() error {
	_, err := parsePaths(o.Ignore)
	return err
}

// Kind is the kind of a change.
type Kind string

// These are the kinds of changes.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	// Changed: the object has the same UID in both sources, and differs in a field that is not ignored.
	Changed Kind = "changed"
	// Replaced: both sources have an object of this name, but the object was deleted and created again (another UID).
	Replaced Kind = "replaced"
)

// Change is one difference between the two compared sources. It is valid until the callback of Compare returns.
type Change struct {
	Kind Kind
	// Collection is the collection in the second source, or, if the object was Removed, in the first. If only an overlap
	// is compared, its Identity is Overlap.Scope. It is Sealed if either source's collection is.
	Collection snapshot.Collection
	Key        string
	// Before and After are the two states of the object, without the ignored fields; nil if that source lacks the object
	// or its type is unknown.
	Before, After *unstructured.Unstructured
	// Patch is the JSON merge patch (RFC 7386) from Before to After. It is {} for equal objects, and for differences that
	// a merge patch cannot express (a null field). It is nil for Added, Removed and unknown types.
	Patch []byte
}

// Report is the result of Compare: how many objects differ, and which collections were compared.
type Report struct {
	Added, Removed, Changed, Replaced, Same int
	// OnlyInA and OnlyInB have the collections that only one source has. Their objects are not counted.
	OnlyInA, OnlyInB []snapshot.Collection
	// Overlaps has the pairs of collections of which only the common part was compared, because their scopes differ.
	Overlaps []Overlap
}

// Equal reports whether Compare found no difference.
func (r Report) Equal() bool {
	return r.Added+r.Removed+r.Changed+r.Replaced == 0 && len(r.OnlyInA)+len(r.OnlyInB) == 0
}

// Compare calls fn with each difference of b from a, in the order of b's collections and of keys. Collections are
// matched by resource, namespace and selectors. A typed collection also matches an unstructured one: then null and
// empty fields count as absent. The remaining collections are compared where they overlap (Overlap), for example one
// namespace with all. Compare holds a block of each source in memory. It returns an error of fn.
func Compare(ctx context.Context, a, b snapshot.Source, o Options, fn func(Change) error) (Report, error) {
	if o.Ignore == nil {
		o.Ignore = DefaultIgnore()
	}
	ignore, err := parsePaths(o.Ignore)
	if err != nil {
		return Report{}, err
	}
	var report Report
	pairs, err := matchCollections(ctx, a, b, &report)
	if err != nil {
		return report, err
	}
	for _, p := range pairs {
		sealed := p.a.Sealed || p.b.Sealed
		p.a.Sealed, p.b.Sealed = sealed, sealed
		d := &differ{
			a: snapshot.NewDecoder(p.a), b: snapshot.NewDecoder(p.b), before: p.a, after: p.b, ignore: ignore,
			loose: p.a.Identity.Representation != p.b.Identity.Representation, fn: fn, report: &report,
		}
		ofA, ofB := a, b
		if p.part {
			report.Overlaps = append(report.Overlaps, Overlap{p.a, p.b, p.scope})
			d.before.Identity, d.after.Identity = p.scope, p.scope
			if ofA, err = within(a, p.a, p.scope); err != nil {
				return report, err
			}
			if ofB, err = within(b, p.b, p.scope); err != nil {
				return report, err
			}
		}
		if err := d.run(ctx, p, ofA, ofB); err != nil {
			return report, fmt.Errorf("compare %s: %w", p.b.Identity, err)
		}
	}
	return report, nil
}

type differ struct {
	a, b          *snapshot.Decoder
	before, after snapshot.Collection
	ignore        paths
	loose         bool // null and empty fields count as absent, because only one collection is typed
	fn            func(Change) error
	report        *Report
}

func (d *differ) run(ctx context.Context, p pair, a, b snapshot.Source) error {
	left, stopLeft := pull(ctx, a, p.a.Identity)
	defer stopLeft()
	right, stopRight := pull(ctx, b, p.b.Identity)
	defer stopRight()
	l, lok, err := left()
	if err != nil {
		return err
	}
	r, rok, err := right()
	if err != nil {
		return err
	}
	for lok || rok {
		advanceLeft, advanceRight := lok && (!rok || l.Key <= r.Key), rok && (!lok || r.Key <= l.Key)
		switch {
		case advanceLeft && advanceRight:
			err = d.both(l, r)
		case advanceLeft:
			err = d.one(Removed, d.before, d.a, l)
		default:
			err = d.one(Added, d.after, d.b, r)
		}
		if err == nil && advanceLeft {
			l, lok, err = left()
		}
		if err == nil && advanceRight {
			r, rok, err = right()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *differ) one(kind Kind, c snapshot.Collection, decoder *snapshot.Decoder, r entry.Entry) error {
	change := Change{Kind: kind, Collection: c, Key: r.Key}
	u, err := decoder.Decode(r)
	if err != nil && !errors.Is(err, snapshot.ErrUndecodable) {
		return err
	}
	if err == nil {
		d.ignore.remove(u.Object)
	}
	if kind == Added {
		d.report.Added++
		change.After = u
	} else {
		d.report.Removed++
		change.Before = u
	}
	return d.fn(change)
}

func (d *differ) both(l, r entry.Entry) error {
	if l.UID == r.UID && l.Encoding == r.Encoding && !d.loose && bytes.Equal(l.Payload, r.Payload) {
		d.report.Same++
		return nil
	}
	change := Change{Kind: Changed, Collection: d.after, Key: r.Key}
	if l.UID != r.UID {
		change.Kind = Replaced
	}
	same, err := d.compare(l, r, &change)
	if errors.Is(err, snapshot.ErrUndecodable) {
		change.Before, change.After, change.Patch = nil, nil, nil
		same, err = false, nil
	}
	switch {
	case err != nil:
		return err
	case change.Kind == Replaced:
		d.report.Replaced++
	case same:
		d.report.Same++
		return nil
	default:
		d.report.Changed++
	}
	return d.fn(change)
}

// compare decodes the two states of an object, and creates the patch between them. same is true if they do not differ.
func (d *differ) compare(l, r entry.Entry, change *Change) (same bool, err error) {
	if change.Before, err = d.a.Decode(l); err != nil {
		return false, err
	}
	if change.After, err = d.b.Decode(r); err != nil {
		return false, err
	}
	var texts [2][]byte
	for i, u := range []*unstructured.Unstructured{change.Before, change.After} {
		d.ignore.remove(u.Object)
		if d.loose {
			prune(u.Object)
		}
		if texts[i], err = u.MarshalJSON(); err != nil {
			// The encoder's error may quote the object, so it is not returned.
			return false, fmt.Errorf("%q cannot be written as JSON", r.Key)
		}
	}
	if bytes.Equal(texts[0], texts[1]) {
		change.Patch = []byte("{}")
		return true, nil
	}
	if change.Patch, err = jsonpatch.CreateMergePatch(texts[0], texts[1]); err != nil {
		return false, fmt.Errorf("%q: make a patch: %w", r.Key, err)
	}
	return false, nil
}

// prune removes null and empty fields from a JSON value, because typed and unstructured objects differ in these fields.
// It returns whether the value itself is empty.
func prune(v any) (empty bool) {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for name, field := range v {
			if prune(field) {
				delete(v, name)
			}
		}
		return len(v) == 0
	case []any:
		for _, item := range v {
			prune(item)
		}
		return len(v) == 0
	}
	return false
}

// pull returns an iterator over records, which are valid until the following call of next. The caller must call stop.
func pull(
	ctx context.Context, src snapshot.Source, id entry.Identity,
) (next func() (r entry.Entry, ok bool, err error), stop func()) {
	seq := func(yield func(entry.Entry, error) bool) {
		last, stopped := "", false
		err := src.Records(ctx, id, func(r entry.Entry) error {
			if r.Key <= last {
				return fmt.Errorf("%s: key %q after %q: %w", id, r.Key, last, snapshot.ErrOrder)
			}
			last = r.Key
			if stopped = !yield(r, nil); stopped {
				return errStop
			}
			return nil
		})
		if err != nil && !stopped {
			yield(entry.Entry{}, err)
		}
	}
	step, stop := iter.Pull2(iter.Seq2[entry.Entry, error](seq))
	return func() (entry.Entry, bool, error) {
		r, err, ok := step()
		return r, ok && err == nil, err
	}, stop
}

var errStop = errors.New("stop")

// DefaultIgnore returns the paths that Compare ignores if Options.Ignore is nil: fields that change with every write.
func DefaultIgnore() []string {
	return []string{"metadata.managedFields", "metadata.resourceVersion", "metadata.generation"}
}

type paths [][]string

func parsePaths(texts []string) (paths, error) {
	var out paths
	for _, text := range texts {
		p, ok := parsePath(text)
		if !ok {
			return nil, fmt.Errorf("path %q: write it as status.phase, metadata.annotations[\"a.b/c\"], "+
				"or spec.items[*].name", text)
		}
		out = append(out, p)
	}
	return out, nil
}

// parsePath parses a path of names separated by dots (metadata.managedFields). A name with dots is in brackets and
// quotes (metadata.annotations["a.b/c"]). [*] stands for the items of a list, and may be omitted.
func parsePath(text string) (path []string, ok bool) {
	if !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "[") {
		text = "." + text
	}
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "[*]"); ok {
			text = rest
			continue
		}
		var name string
		if rest, ok := strings.CutPrefix(text, "."); ok {
			name = rest
			if end := strings.IndexAny(rest, ".["); end >= 0 {
				name = rest[:end]
			}
			if text = rest[len(name):]; strings.ContainsAny(name, `*/"]`) {
				return nil, false
			}
		} else {
			quoted, err := strconv.QuotedPrefix(strings.TrimPrefix(text, "["))
			if err != nil {
				return nil, false
			}
			if text, ok = strings.CutPrefix(text, "["+quoted+"]"); !ok {
				return nil, false
			}
			if name, err = strconv.Unquote(quoted); err != nil {
				return nil, false
			}
		}
		if name == "" {
			return nil, false
		}
		path = append(path, name)
	}
	return path, len(path) > 0
}

func (p paths) remove(object map[string]any) {
	for _, path := range p {
		removePath(object, path)
	}
}

// removePath removes the field at path from the JSON value v, or from all items if v is a list.
func removePath(v any, path []string) {
	switch v := v.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(v, path[0])
		} else {
			removePath(v[path[0]], path[1:])
		}
	case []any:
		for _, item := range v {
			removePath(item, path)
		}
	}
}

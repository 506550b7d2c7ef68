package compare

import (
	"context"
	"slices"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

// Options are the options of Run.
type Options struct {
	// Filter selects what is compared. Default: everything.
	Filter snapshot.Filter
	// Names are the names of the objects to compare. Default: all.
	Names input.ObjectNames
	// Ignore are the paths of fields that are not compared, as diff.Options has them.
	Ignore []string
	// Counted is b, for who counts what is read of it. Default: b itself.
	Counted snapshot.Source
}

// SkipSealed leaves out of the comparison what is sealed in one of the sides and cannot be read: SealedOf names it.
func SkipSealed(a, b *Side, asked snapshot.Filter) {
	for _, c := range slices.Concat(a.SealedOf(asked), b.SealedOf(asked)) {
		a.Skip(c.GVR())
		b.Skip(c.GVR())
	}
}

// Run calls fn with each difference of b from a. What only one of them was told to take when it was saved is not
// compared. An error of reading a side is a SideError.
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

// named has only the objects with the names.
type named struct {
	snapshot.Source
	names input.ObjectNames
}

// Records implements snapshot.Source.
func (n *named) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	return n.Source.Records(ctx, id, func(r entry.Entry) error {
		if !n.names.Take(id.GroupVersionResource, r.Key) {
			return nil
		}
		return fn(r)
	})
}

// selectAll selects what all filters do.
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

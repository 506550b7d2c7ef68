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

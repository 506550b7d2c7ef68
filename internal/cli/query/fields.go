package query

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/internal/source"
)

// fieldsIn returns the field selector that must still be applied to the objects of a collection. It returns none if the
// server has already applied the selector to the whole collection, because only the server knows defaults that are not
// in the objects, such as spec.unschedulable=false of nodes.
func (o *getOptions) fieldsIn(c source.Collection) string {
	if c.FieldSelector == o.fields {
		return ""
	}
	return discovery.StoredSelector(c.Identity().GroupResource(), o.fields)
}

// noteFields prints a note about fields of the selector that no stored object has. A store cannot reject a misspelled
// field, because it has no schema. The field is then empty in every object, so that = matches none and != all.
func (o *getOptions) noteFields(
	ctx context.Context, s command.IO, src source.Source, chosen input.Choice, found bool,
) error {
	selector, err := fields.ParseSelector(o.fields)
	if err != nil {
		return err
	}
	for _, r := range selector.Requirements() {
		if found && r.Operator != selection.NotEquals && r.Value != "" {
			// The objects found match a value of the field, so the field exists.
			continue
		}
		// Kubernetes defines the field for this kind, so it is not misspelled.
		if discovery.IsSelectableField(chosen.Collections[0].Identity().GroupResource(), r.Field) {
			continue
		}
		absent, err := o.absent(ctx, src, chosen.Collections, r.Field)
		if err != nil {
			return input.ReadError(o.from.Path, err)
		}
		if absent {
			fmt.Fprintf(s.Err, "note: none of the stored %s has a text, number or boolean at %q; it was taken for empty\n",
				chosen.Resource, r.Field)
		}
	}
	return nil
}

func (o *getOptions) absent(
	ctx context.Context, src source.Source, all []source.Collection, field string,
) (bool, error) {
	with := fields.OneTermNotEqualSelector(field, "").String()
	absent := false
	for _, c := range all {
		if c.Objects == 0 || o.fieldsIn(c) == "" {
			continue
		}
		q := source.Query{Collection: c.ID, Fields: with, KeysOnly: true}
		var unreadable *source.UnreadableError
		switch err := src.Entries(ctx, q, func(entry.Entry) error { return input.ErrEnough }); {
		case errors.Is(err, input.ErrEnough), errors.As(err, &unreadable):
			// The read stopped early or at an unreadable object: the field may exist.
			return false, nil
		case err != nil:
			return false, err
		}
		absent = true
	}
	return absent, nil
}

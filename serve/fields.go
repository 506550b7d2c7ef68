package serve

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/store/query"
)

func (k *kind) checkFields(selector fields.Selector) error {
	builtIn := k.collections[0].builtIn
	_, special := discovery.SelectableFields(k.GroupResource())
	for _, r := range selector.Requirements() {
		switch {
		case builtIn && discovery.IsSelectableField(k.GroupResource(), r.Field):
		case !builtIn && (r.Field == "metadata.name" || r.Field == "metadata.namespace" && k.Namespaced ||
			slices.Contains(k.SelectableFields, r.Field)):
		case builtIn && !special:
			return apierrors.NewBadRequest(fmt.Sprintf(
				`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, r.Field))
		default:
			return apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return nil
}

// matcherOf returns a function that reports whether an entry matches the selectors of a list or a watch; nil if all
// entries match. The function is not safe for concurrent use.
func matcherOf(c *collection, o *listOptions) func(entry.Entry) (bool, error) {
	if !o.selective() {
		return nil
	}
	fields, sources := discovery.StoredFields(c.Identity.GroupResource(), o.fields)
	matches := query.Query{Labels: o.labels, Fields: fields}.ForEntries(c.codec())
	if len(sources) == 0 {
		return matches
	}
	return func(e entry.Entry) (bool, error) {
		if ok, err := matches(e); err != nil || !ok {
			return false, err
		}
		u, err := c.decoder.Decode(e)
		if err != nil {
			return false, err
		}
		source, _, _ := unstructured.NestedString(u.Object, "source", "component")
		if source == "" {
			source, _, _ = unstructured.NestedString(u.Object, "reportingComponent")
		}
		for _, r := range sources {
			if (source == r.Value) == (r.Operator == selection.NotEquals) {
				return false, nil
			}
		}
		return true, nil
	}
}

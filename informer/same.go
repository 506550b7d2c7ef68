package informer

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// mostCompared is how many objects a collection may have for a start to compare it with the server's. With 10,000 that takes
// half the time of a list; with more the bookmark that the reflector waits for instead, about a second, costs less.
const mostCompared = 10_000

// comparedWithin is the time-out that a page asks the server for, in seconds. No other list has one, so it tells this one
// from the lists of objects in an audit log, which does not say what form was asked for.
const comparedWithin = 1

// sameness returns a reflector.Options.Same, or nil if nobody waits for the answer, or it would cost whole objects.
func (i *Informer) sameness() func(ctx context.Context) (string, bool, error) {
	if i.o.SyncPolicy != Resumed || i.o.ListMetadata == nil {
		return nil
	}
	return i.same
}

// same reports whether the server has exactly what is stored, by UID and resourceVersion, from a list of metadata in pages
// that ends with the first difference. A collection of more than mostCompared objects is not compared
// (reflector.Checkpoint.Large).
//
// It sees no more of a server that was rewound than an audit: an object that was written again under its old resourceVersion
// looks unchanged.
func (i *Informer) same(ctx context.Context) (resourceVersion string, same bool, err error) {
	held, err := i.store.Refs(ctx, "", mostCompared+1)
	if err != nil || len(held) > mostCompared {
		return "", false, err
	}
	within := int64(comparedWithin)
	// One more than are held shows that there are others.
	o := metav1.ListOptions{Limit: min(int64(len(held)+1), reflector.DefaultPageSize), TimeoutSeconds: &within}
	for {
		list, err := i.o.ListMetadata(ctx, o)
		if err != nil {
			return "", false, err
		}
		resourceVersion = list.ResourceVersion
		if !namesAll(list.Items) {
			return resourceVersion, false, nil
		}
		page, err := (&refLister{Informer: i}).refsOf(list)
		if err != nil {
			return "", false, fmt.Errorf("compare what is stored with the server: %w", err)
		}
		n := min(len(page.refs), len(held)) // both are in the order of the keys
		if !slices.EqualFunc(page.refs, held[:n], func(a reflector.ObjectRef, b store.ObjectRef) bool {
			return a == reflector.ObjectRef(b)
		}) {
			return resourceVersion, false, nil
		}
		held, o.Continue = held[n:], list.Continue
		if o.Continue == "" {
			return resourceVersion, len(held) == 0, nil
		}
	}
}

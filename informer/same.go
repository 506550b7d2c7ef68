package informer

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/reflector"
)

// mostCompared is how many objects a collection may have for a start to compare it with the server's: one page.
const mostCompared = reflector.DefaultPageSize

// comparedWithin is the time-out that the page asks the server for, in seconds. No other list has one, so it tells this one
// from the lists of objects in an audit log, which does not say what form was asked for.
const comparedWithin = 1

// sameness returns a reflector.Options.Same, or nil if nobody waits for the answer, or it would cost whole objects.
func (i *Informer) sameness() func(ctx context.Context) (string, bool, error) {
	if i.o.SyncPolicy != Resumed || i.o.ListMetadata == nil {
		return nil
	}
	return i.same
}

// same reports whether the server has exactly what is stored, by UID and resourceVersion. A collection that does not fit
// into one page of metadata is not compared (reflector.Checkpoint.Large): the bookmark that the reflector waits for costs
// less.
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
	list, err := i.o.ListMetadata(ctx, metav1.ListOptions{Limit: int64(len(held) + 1), TimeoutSeconds: &within})
	if err != nil {
		return "", false, err
	}
	if list.Continue != "" || !namesAll(list.Items) {
		return list.ResourceVersion, false, nil
	}
	page, err := (&refLister{Informer: i}).refsOf(list)
	if err != nil {
		return "", false, fmt.Errorf("compare what is stored with the server: %w", err)
	}
	if len(page.refs) != len(held) {
		return page.resourceVersion, false, nil
	}
	for n, ref := range held { // both are in the order of the keys
		if page.refs[n] != reflector.ObjectRef(ref) {
			return page.resourceVersion, false, nil
		}
	}
	return page.resourceVersion, true, nil
}

package informer

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
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
	c := comparedList{Informer: i, held: held}
	// One more than are held shows that there are others.
	o := metav1.ListOptions{Limit: min(int64(len(held)+1), reflector.DefaultPageSize), TimeoutSeconds: &within}
	for begun := time.Now(); ; {
		list, err := i.o.ListMetadata(ctx, o)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", false, err
		}
		equal, err := c.page(list)
		if err != nil || !equal || list.Continue == "" {
			return list.ResourceVersion, equal && c.equal == len(held), err
		}
		deadline, limited := ctx.Deadline()
		left, done := time.Duration(len(held)-c.equal), time.Duration(c.equal)
		if limited && time.Since(begun)*left > time.Until(deadline)*done {
			return list.ResourceVersion, false, nil // at this rate the rest takes too long
		}
		o.Continue = list.Continue
	}
}

// comparedList is how far a list of metadata has been compared with what is held.
type comparedList struct {
	*Informer
	held []entry.ObjectRef
	// listed objects, and how many of those held were equal to what was listed.
	listed, equal int
	// resourceVersion is that of the list: pages of different ones are no state that the server ever had.
	resourceVersion string
}

// page compares the next page. It is not equal either if the list is longer than what is held, of other shards for example:
// its pages are not for this start to go through.
func (c *comparedList) page(list *metav1.PartialObjectMetadataList) (equal bool, err error) {
	if c.listed == 0 {
		c.resourceVersion = list.ResourceVersion
	}
	c.listed += len(list.Items)
	all := int64(c.listed)
	if list.RemainingItemCount != nil {
		all += *list.RemainingItemCount
	}
	longer := list.Continue != "" && all > int64(len(c.held))
	if longer || !namesAll(list.Items) || list.ResourceVersion != c.resourceVersion {
		return false, nil
	}
	page, err := (&refLister{Informer: c.Informer}).refsOf(list)
	if err != nil {
		return false, fmt.Errorf("compare what is stored with the server: %w", err)
	}
	held := c.held[c.equal:]
	held = held[:min(len(page.refs), len(held))] // both are in the order of the keys
	c.equal += len(held)
	return slices.EqualFunc(page.refs, held, func(a entry.ObjectRef, b entry.ObjectRef) bool {
		return a == b
	}), nil
}

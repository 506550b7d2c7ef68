package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
)

// MostCompared is how many objects a collection may have for Same to compare it with the server's. With 10,000 that
// takes half the time of a list; with more the bookmark that the reflector waits for instead, about a second, costs
// less.
const MostCompared = 10_000

// comparedWithin is the time-out that a page asks the server for, in seconds. No other list has one, so it tells this
// one from the lists of objects in an audit log, which does not say what form was asked for.
const comparedWithin = 1

// comparedAtOnce is how many objects a page has at most.
const comparedAtOnce = 2000

// Same reports whether the server has exactly what is stored, by UID and resourceVersion, from a list of metadata in
// pages that ends with the first difference. A collection of more than MostCompared objects is not compared. Options
// must have a ListMetadata.
//
// It sees no more of a server that was rewound than an audit: an object that was written again under its old
// resourceVersion looks unchanged.
func (a *Auditor) Same(ctx context.Context) (resourceVersion string, same bool, err error) {
	held, err := a.o.Subject.Refs(ctx, "", MostCompared+1)
	if err != nil || len(held) > MostCompared {
		return "", false, err
	}
	within := int64(comparedWithin)
	c := comparison{Auditor: a, held: held}
	// One more than are held shows that there are others.
	o := metav1.ListOptions{Limit: min(int64(len(held)+1), comparedAtOnce), TimeoutSeconds: &within}
	for begun := time.Now(); ; {
		list, err := a.o.ListMetadata(ctx, o)
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

// comparison is how far a list of metadata has been compared with what is held.
type comparison struct {
	*Auditor
	held []entry.ObjectRef
	// listed objects, and how many of those held were equal to what was listed.
	listed, equal int
	// resourceVersion is that of the list: pages of different ones are no state that the server ever had.
	resourceVersion string
}

// page compares the next page. It is not equal either if the list is longer than what is held, of other shards for
// example: its pages are not for this start to go through.
func (c *comparison) page(list *metav1.PartialObjectMetadataList) (equal bool, err error) {
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
	page, err := c.pageOf(list)
	if err != nil {
		return false, fmt.Errorf("compare what is stored with the server: %w", err)
	}
	held := c.held[c.equal:]
	held = held[:min(len(page.refs), len(held))] // both are in the order of the keys
	c.equal += len(held)
	return slices.Equal(page.refs, held), nil
}

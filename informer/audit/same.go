package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
)

// MostCompared is the maximum number of objects of a collection that Same compares. With 10,000 it takes half the time
// of a list. With more it costs more than what the reflector does instead: to wait about a second for a bookmark.
const MostCompared = 10_000

// comparedWithin is the timeoutSeconds of a page's request. No other list request has one, so it identifies these
// requests in an API server's audit log, which does not record that metadata was requested.
const comparedWithin = 1

// comparedAtOnce is the maximum number of objects in a page.
const comparedAtOnce = 2000

// Same reports whether the server has exactly the stored objects, by UID and resourceVersion. It lists metadata in
// pages, and stops at the first difference. It returns false for a collection of more than MostCompared objects.
// Options must have a ListMetadata.
//
// As for an audit, an object that a rewound server has written again under its old resourceVersion looks unchanged.
func (a *Auditor) Same(ctx context.Context) (resourceVersion string, same bool, err error) {
	held, err := a.o.Subject.Refs(ctx, "", MostCompared+1)
	if err != nil || len(held) > MostCompared {
		return "", false, err
	}
	within := int64(comparedWithin)
	c := comparison{Auditor: a, held: held}
	// A limit of one more than are held shows whether the server has others.
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

// comparison is the progress of comparing a list of metadata with the stored objects.
type comparison struct {
	*Auditor
	held []entry.ObjectRef
	// listed counts the listed objects, and equal the held ones that were equal to a listed one.
	listed, equal int
	// resourceVersion is that of the first page: pages of different resourceVersions are not one state of the server.
	resourceVersion string
}

// page compares the next page. It also returns false if the list is longer than the stored objects, because of other
// shards for example: a start should not read all its pages.
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

package fleet

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kept is how many objects there are, each for 1,000 of those that are charged for.
const kept = 100

// history is what is written to the cluster, as it depends on the time since it began: every changeEvery one object
// changes, each in its turn, and the resourceVersion grows by rvRate a second besides.
type history struct{ began time.Time }

// now is the time since the beginning, which the other methods take.
func (h history) now() time.Duration { return time.Since(h.began) }

// changes is how many there have been. The first is change 1.
func (history) changes(at time.Duration) int { return int(at / changeEvery) }

// due is how long it is until a change.
func (h history) due(change int) time.Duration {
	return time.Until(h.began.Add(time.Duration(change) * changeEvery))
}

func (h history) rv(at time.Duration) int64 {
	return kept + 1 + int64(at.Seconds()*rvRate) + int64(h.changes(at))
}

// next is the first change that a watch from a resourceVersion has to send.
func (h history) next(rv int64) int {
	const each = rvRate*int64(changeEvery/time.Second) + 1
	return int(max(rv-kept-1, 0)/each) + 1
}

// changed is the object that a change made.
func (h history) changed(change int) *metav1.PartialObjectMetadata {
	return object((change-1)%kept, h.rv(time.Duration(change)*changeEvery))
}

// objects are those from and up to an index, in order of their names, with their last changes.
func (h history) objects(at time.Duration, from, to int) []*metav1.PartialObjectMetadata {
	var all []*metav1.PartialObjectMetadata
	for i := from; i < to; i++ {
		obj := object(i, int64(i+1))
		if made := h.changes(at); made > i {
			obj = h.changed(made - (made-1-i)%kept)
		}
		all = append(all, obj)
	}
	return all
}

func object(i int, rv int64) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("pod-%03d", i), UID: types.UID(strconv.Itoa(i)),
		ResourceVersion: strconv.FormatInt(rv, 10),
	}}
}

package fleet

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kept is the number of objects that the model server stores. Each stands for 1,000 real objects.
const kept = 100

// history is the sequence of writes to the cluster, as a function of the time since its start. One object after the
// other changes, every changeEvery. Other writes advance the resourceVersion by rvRate a second.
type history struct{ began time.Time }

// now returns the time since the start, the argument of the other methods.
func (h history) now() time.Duration { return time.Since(h.began) }

func (history) changes(at time.Duration) int { return int(at / changeEvery) }

func (h history) due(change int) time.Duration {
	return time.Until(h.began.Add(time.Duration(change) * changeEvery))
}

func (h history) rv(at time.Duration) int64 {
	return kept + 1 + int64(at.Seconds()*rvRate) + int64(h.changes(at))
}

// next returns the number of the first change that a watch from this resourceVersion has to send.
func (h history) next(rv int64) int {
	const each = rvRate*int64(changeEvery/time.Second) + 1
	return int(max(rv-kept-1, 0)/each) + 1
}

func (h history) changed(change int) *metav1.PartialObjectMetadata {
	return object((change-1)%kept, h.rv(time.Duration(change)*changeEvery))
}

// objects returns the objects with indexes from (included) to to (excluded) at that time, ordered by name.
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

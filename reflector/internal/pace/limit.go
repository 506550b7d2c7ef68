package pace

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// firstLimit is that of a run's first page, of which nothing is known. A server that is asked for 100,000 pods in
	// pages of 500 takes 37 ms of its processor for each page more than there are in pages of 2,000, so the two small
	// pages at the start are 2 % of the list's cost; and 500 objects of 100 KB come over a link where 2,000 do not.
	firstLimit = 500
	// leastLimit is not 1, which is a probe to whoever counts requests.
	leastLimit = 2
	// pageBytes is what a page aims at. 2,000 pods are half of it.
	pageBytes = 16 << 20
	// PromptPage is how long a page may have taken if the next may have twice as many objects: API servers cut what
	// takes a minute.
	PromptPage = 20 * time.Second
	// maxPenalty bounds the pages that come before a larger one is tried again.
	maxPenalty = 32
)

// Limit is how many objects are asked for in a page. It is kept for the run: what the link and the objects are like,
// the next list need not find out again.
type Limit struct {
	Next, Least, most int64
	// cutAt is the last limit whose answer was cut, 0 if a page as large has come since.
	cutAt int64
	// hold is how many pages more are to come before a larger one is tried; penalty what that was set to at the last cut.
	// It doubles, since a link that cuts every long answer at once would else have each page asked for twice.
	hold, penalty int
	// settled: a page has come since the last cut. Cuts in a row are one search for what comes, with one penalty.
	settled bool
	// slow counts those of them that took their time.
	slow int
}

// NewLimit returns the limit of a run that may ask for so many objects at most.
func NewLimit(most int64) Limit {
	return Limit{Next: min(firstLimit, most), Least: min(leastLimit, most), most: most, settled: true}
}

// Cut notes that the answer to a request of so many did not come in time, or not to its end, after it took so long.
func (l *Limit) Cut(asked int64, took time.Duration) {
	if l.settled {
		l.penalty, l.slow = min(max(2*l.penalty, 1), maxPenalty), 0
	}
	by := 1
	if took >= PromptPage {
		// By halves the way from 500 objects of 100 KB to the six that come over 56 kbit/s would be seven time-outs.
		l.slow++
		by = l.slow
	}
	l.Next, l.cutAt, l.hold, l.settled = max(asked>>by, l.Least), asked, l.penalty, false
}

// Came notes a page of n objects, where so many were asked for, of that mean size, or 0 if that is not known.
func (l *Limit) Came(asked int64, n int, meanSize int64, took time.Duration) {
	l.Next, l.settled = asked, true
	if int64(n) >= l.cutAt {
		l.cutAt, l.penalty, l.hold = 0, 0, 0
	}
	switch {
	case took >= PromptPage:
	case l.hold > 0:
		l.hold--
	default:
		l.Next = min(2*asked, l.most)
	}
	if meanSize > 0 {
		l.Next = max(min(l.Next, pageBytes/meanSize), l.Least)
	}
}

const (
	// samples are the objects of a page that are measured: all of them would be 5 % of a cold start.
	samples = 64
	// enoughBytes end it before, if there were fewSamples.
	enoughBytes, fewSamples = 1 << 20, 8
)

// MeanSize estimates how large the encoded objects are, by some that are spread over all.
func MeanSize(items []runtime.Object) int64 {
	n := min(len(items), samples)
	var total int64
	for i := range n {
		total += encodedSize(items[i*len(items)/n])
		if total > enoughBytes && i+1 >= fewSamples {
			n = i + 1
			break
		}
	}
	if n == 0 {
		return 0
	}
	return total / int64(n)
}

// encodedSize is about that of obj as it was sent.
func encodedSize(obj runtime.Object) int64 {
	switch o := obj.(type) {
	case interface{ Size() int }: // generated with the protobuf code
		return int64(o.Size())
	case runtime.Unstructured:
		return jsonSize(o.UnstructuredContent())
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		return 0 // the sink will say what is wrong with it
	}
	return int64(len(raw))
}

// jsonSize is about that of v in JSON, which is not made for it.
func jsonSize(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v)) + 2
	case map[string]any:
		n := int64(2)
		for k, e := range v {
			n += int64(len(k)) + 4 + jsonSize(e)
		}
		return n
	case []any:
		n := int64(2)
		for _, e := range v {
			n += 1 + jsonSize(e)
		}
		return n
	}
	return 4 // a number, true, false, null
}

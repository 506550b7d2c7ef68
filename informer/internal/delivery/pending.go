package delivery

import (
	"k8s.io/client-go/tools/cache"
)

// mergeThreshold is the number of a handler's pending notifications from which on updates of one key merge.
const mergeThreshold = 1024

// initialPending is the capacity of a new queue. Like mergeThreshold it is a power of two.
const initialPending = 16

// pending is the queue of one handler. Below the threshold it keeps every notification. From the threshold on, an
// update merges into the last pending notification of its key, provided that this is an update too and was queued since
// the threshold was crossed. Additions and deletions never merge. So the queue holds at most threshold notifications,
// an addition and an update for each key that was not deleted, and three for each deletion: itself, and an addition and
// an update before it.
//
// Notifications are numbered in the order in which they were queued:
//
//	         head             crossed                tail
//	delivered │ unmerged       │ one update in a row   │ next
//	          └────────────────┴── of each key ────────┘
//
// It is not safe for concurrent use.
type pending struct {
	threshold int
	// ring holds notification n at n modulo its length, which is a power of two.
	ring       []Call
	head, tail uint64
	// crossed is the number of the first notification into which a later update can merge. Before it was queued, the
	// number of pending notifications was below the threshold.
	crossed uint64
	// latest has the number of a key's last notification, if that is an update and was queued at or above the
	// threshold. A number below crossed is no longer used, and is removed with its notification.
	latest map[string]uint64
	merged int
}

func newPending(threshold int) pending {
	return pending{threshold: threshold, ring: make([]Call, initialPending)}
}

func (q *pending) len() int { return int(q.tail - q.head) }

func (q *pending) at(number uint64) *Call { return &q.ring[number&uint64(len(q.ring)-1)] }

func (q *pending) put(n Call) {
	if q.len() >= q.threshold && q.absorb(&n) {
		q.merged++
		return
	}
	if q.len() == len(q.ring) {
		q.resize(2 * len(q.ring))
	}
	*q.at(q.tail) = n
	q.tail++
}

// absorb merges n into the last notification of its key and returns true, if possible. Otherwise it returns false, and
// notes in latest whether a later notification can merge into n.
func (q *pending) absorb(n *Call) bool {
	if n.Type != cache.Updated {
		delete(q.latest, n.Key)
		return false
	}
	if number, ok := q.latest[n.Key]; ok && number >= q.crossed {
		q.at(number).merge(n)
		return true
	}
	if q.latest == nil {
		q.latest = map[string]uint64{}
	}
	q.latest[n.Key] = q.tail
	n.latest = true
	return false
}

func (q *pending) take() (n Call, ok bool) {
	if q.len() == 0 {
		return n, false
	}
	n, *q.at(q.head) = *q.at(q.head), n // the ring must not keep the objects in memory
	if n.latest {
		q.forget(n.Key)
	}
	q.head++
	if q.len() == q.threshold-1 {
		q.crossed = q.tail
	}
	if len(q.ring) > mergeThreshold && q.len() <= len(q.ring)/4 {
		q.resize(len(q.ring) / 2)
	}
	return n, true
}

// forget removes the first notification's key from latest, unless latest has a later notification of the key.
func (q *pending) forget(key string) {
	if number, ok := q.latest[key]; ok && number == q.head {
		delete(q.latest, key)
	}
	if len(q.latest) == 0 {
		q.latest = nil // a new map later: an emptied map keeps its memory
	}
}

func (q *pending) resize(n int) {
	old := *q
	q.ring = make([]Call, n)
	for number := old.head; number != old.tail; number++ {
		*q.at(number) = *old.at(number)
	}
}

package fleet

import "time"

// objects is the number of watched objects: pods of about 3 KB.
const objects = 100_000

// cost is the API server's cost of one request: processor time, bytes and priority-and-fairness seats.
type cost struct {
	cpu   time.Duration
	bytes float64
	seats int64
}

// Costs of lists of 100,000 pods, measured on a kube-apiserver v1.36.3. If a range was measured, the cost is its lower
// end. docs/benchmarks.md has later figures: 10.3 s for a WatchList and 3.15 s for a LIST. With those figures, the
// simulated WatchList would take 2.7 times as long, and the LIST half as long.
var (
	// watchListCost is the cost of client-go's default list, a WatchList. It sends 308 MB, because watches are not
	// compressed, and uses 3.8 to 9 s of processor time.
	watchListCost = cost{cpu: 3800 * time.Millisecond, bytes: 308e6, seats: cachedSeats}
	// listCost is the cost of client-go's list without WatchListClient: one compressed answer to a LIST request.
	listCost = cost{cpu: 6100 * time.Millisecond, bytes: 11.7e6, seats: cachedSeats}
	// smallCost is the cost of each of the ten small requests of a resume: docs/benchmarks.md has 33.4 kB and 60 ms for
	// all ten, including the connection.
	smallCost = cost{cpu: 6 * time.Millisecond, bytes: 3340, seats: 1}
)

// eventBytes is the size of an object in a watch, which is not compressed.
const eventBytes = 3080

const (
	// pageCPU (per page) and objectCPU (per object) fit the processor time of two measured lists in pages: 3.1 s with
	// pages of 2,000 objects, 8.6 s with pages of 500.
	pageCPU   = 36700 * time.Microsecond
	objectCPU = 12670 * time.Nanosecond
	// pagedBytes is the size of an object in a compressed page of a list: 11.8 MB for all objects.
	pagedBytes = 118
)

// pageCost returns the server's cost of a page of n objects. The server reads the first page of a list from the watch
// cache.
func pageCost(n int, first bool) cost {
	c := cost{cpu: pageCPU + time.Duration(n)*objectCPU, bytes: float64(n) * pagedBytes, seats: pageSeats}
	if first {
		c.seats = cachedSeats
	}
	return c
}

// Limits of a kube-apiserver v1.36 with default flags, for the service account of a DaemonSet (k8s.io/apiserver
// v0.36.3: pkg/apis/flowcontrol/bootstrap, pkg/util/flowcontrol/request/list_work_estimator.go, apf_controller.go).
const (
	// allSeats is the number of seats of the priority level workload-low: 100 of 245 shares of a server's 600 seats. Seats
	// borrowed from idle levels are not modelled.
	allSeats = 245
	// cachedSeats is the maximum number of seats for a request to the watch cache: a list without pages, or a watch that
	// begins with a list.
	cachedSeats = 10
	// pageSeats is the maximum number of seats for one request, 15 % of allSeats. A list's second and later pages are read
	// from etcd, and need this maximum from 6 MB.
	pageSeats = 37
	// queueLength is the number of requests of one account that may wait: 6 queues of 50. queueWait, the longest wait, is
	// a quarter of a request's 60 seconds.
	queueLength = 300
	queueWait   = 15 * time.Second
	// handlerTime is the server's timeout of a request that is not a watch.
	handlerTime = time.Minute
)

const (
	serverCores = 8
	// rvRate is the growth of the resourceVersion by other writes to the cluster, per second.
	rvRate = 100
	// changeEvery is the time between two changes of watched objects. Changes are rare, because they cost the same for all
	// agents.
	changeEvery = 10 * time.Second
	// downTime is how long the server does not answer. startTime is how long the server then refuses requests, because its
	// storage initializes.
	downTime  = 20 * time.Second
	startTime = 5 * time.Second
)

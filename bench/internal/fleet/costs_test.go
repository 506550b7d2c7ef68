package fleet

import "time"

// objects is how many there are of the resource that is watched: pods of about 3 KB.
const objects = 100_000

// cost is what one request takes of the server.
type cost struct {
	cpu   time.Duration
	bytes float64
	seats int64
}

// What lists cost for 100,000 pods was measured on a real kube-apiserver v1.36.3; where that has a range, it is the
// lower end. docs/benchmarks.md, measured later, has 10.3 s for a WatchList and 3.15 s for a LIST: with those the one
// would take 2.7 times as long as it does here, and the other half.
var (
	// watchListCost is client-go's default: 308 MB, since a watch is not compressed, and 3.8 to 9 s.
	watchListCost = cost{cpu: 3800 * time.Millisecond, bytes: 308e6, seats: cachedSeats}
	// listCost is client-go's list with WatchListClient off: one answer, compressed.
	listCost = cost{cpu: 6100 * time.Millisecond, bytes: 11.7e6, seats: cachedSeats}
	// smallCost is that of one of the ten small requests of a resume: docs/benchmarks.md has 33.4 kB and 60 ms for
	// all of them, the connection included.
	smallCost = cost{cpu: 6 * time.Millisecond, bytes: 3340, seats: 1}
)

// eventBytes is an object in a watch, which is not compressed.
const eventBytes = 3080

const (
	// pageCPU and objectCPU make the two figures for a list in pages: 3.1 s with 2,000 a page, 8.6 s with 500.
	pageCPU   = 36700 * time.Microsecond
	objectCPU = 12670 * time.Nanosecond
	// pagedBytes is an object in a page, compressed: 11.8 MB for all.
	pagedBytes = 118
)

// pageCost is that of a page of n objects.
func pageCost(n int, first bool) cost {
	c := cost{cpu: pageCPU + time.Duration(n)*objectCPU, bytes: float64(n) * pagedBytes, seats: pageSeats}
	if first {
		c.seats = cachedSeats
	}
	return c
}

// The terms of a kube-apiserver v1.36 with default flags, for the service account of a DaemonSet (k8s.io/apiserver
// v0.36.3: pkg/apis/flowcontrol/bootstrap, pkg/util/flowcontrol/request/list_work_estimator.go, apf_controller.go).
const (
	// allSeats is workload-low's part of 600: 100 of 245 shares. What it may borrow from idle levels is not counted.
	allSeats = 245
	// cachedSeats is the most for what its cache serves, whole lists and watches that begin with one.
	cachedSeats = 10
	// pageSeats is the most that one request may have here, 15 % of allSeats: it takes 6 MB of a page after the first
	// for reads from etcd.
	pageSeats = 37
	// queueLength is that of one account: 6 queues of 50; queueWait a quarter of a request's 60 seconds.
	queueLength = 300
	queueWait   = 15 * time.Second
	// handlerTime is how long a request that is not a watch may be served.
	handlerTime = time.Minute
)

const (
	// serverCores is how many the server has.
	serverCores = 8
	// rvRate is by how much the resourceVersion grows a second, by whatever is written to the cluster.
	rvRate = 100
	// changeEvery is the time between two changes of the objects that are watched. They are rare, since what they
	// cost is the same for everybody.
	changeEvery = 10 * time.Second
	// downTime is how long the server is away, and startTime how long it then says that its storage is initializing.
	downTime  = 20 * time.Second
	startTime = 5 * time.Second
)

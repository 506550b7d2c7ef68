package metrics

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/meter"
	"github.com/larder-dev/larder/store"
)

// Metrics observes informers and collects their metrics, which docs/metrics.md describes.
type Metrics struct {
	received meter.Received
	counts   atomic.Bool // counts is true after CountReceived.
	commits  commits

	mu        sync.RWMutex
	informers []*observed                      // mu guards informers, oldest first.
	byPointer map[*informer.Informer]*observed // mu guards byPointer.
}

var (
	_ informer.Observer    = &Metrics{}
	_ prometheus.Collector = &Metrics{}
)

// New returns Metrics without informers. The caller registers it.
func New() *Metrics {
	return &Metrics{commits: newCommits(), byPointer: map[*informer.Informer]*observed{}}
}

// CountReceived returns a copy of config whose clients count received bytes on the network: compressed, with headers
// and TLS. The clients have their own connections. A Transport in config does not dial, so its bytes are not counted.
func (m *Metrics) CountReceived(config *rest.Config) *rest.Config {
	m.counts.Store(true)
	return m.received.Count(config)
}

// InformerMade implements informer.Observer.
func (m *Metrics) InformerMade(i *informer.Informer) {
	o := newObserved(i)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.informers = slices.DeleteFunc(m.informers, func(older *observed) bool {
		gone := older.collection == o.collection && older.closed() // An informer that never ran sends no InformerEnded.
		if gone {
			delete(m.byPointer, older.informer)
		}
		return gone
	})
	for _, other := range m.informers {
		if other.collection == o.collection && i.File() != nil && other.informer.File() == i.File() {
			o.calls = other.calls // Informers of one collection share their call counters.
		}
	}
	m.informers = append(m.informers, o)
	m.byPointer[i] = o
}

// InformerEnded implements informer.Observer.
func (m *Metrics) InformerEnded(i *informer.Informer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := m.byPointer[i]
	if ended == nil {
		return
	}
	delete(m.byPointer, i)
	m.informers = slices.DeleteFunc(m.informers, func(o *observed) bool { return o == ended })
	file := ended.file()
	if !slices.ContainsFunc(m.informers, func(o *observed) bool { return o.file() == file }) {
		m.commits.forget(file)
	}
}

// Committed implements informer.Observer.
func (m *Metrics) Committed(i *informer.Informer, c informer.Commit) {
	if o := m.observed(i); o != nil {
		m.commits.observe(o.file(), c)
	}
}

// HandlerCalled implements informer.Observer.
func (m *Metrics) HandlerCalled(i *informer.Informer, handler string, took time.Duration) {
	if o := m.observed(i); o != nil {
		o.calls.WithLabelValues(append(o.labels, handler)...).Observe(took.Seconds())
	}
}

// observed returns the counters of i, or nil after InformerEnded.
func (m *Metrics) observed(i *informer.Informer) *observed {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.byPointer[i]
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range table {
		ch <- m.desc
	}
	newCalls().Describe(ch)
	for _, c := range m.commits.all() {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{storeSize, storeFree, written, receivedBytes} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	if m.counts.Load() {
		ch <- prometheus.MustNewConstMetric(receivedBytes, prometheus.CounterValue, float64(m.received.Bytes()))
	}
	for _, c := range m.commits.all() {
		c.Collect(ch)
	}
	files := map[*store.Store]bool{}
	all := m.all()
	for _, o := range shown(all) {
		o.collect(ch)
	}
	for _, o := range all {
		if f := o.informer.File(); f != nil && !files[f] {
			files[f] = true
			collectFile(ch, f)
		}
	}
}

// shown returns one informer for each collection: the oldest with an open store, or otherwise the oldest.
func shown(all []*observed) (some []*observed) {
	at := map[string]int{}
	for _, o := range all {
		n, taken := at[o.collection]
		switch {
		case !taken:
			at[o.collection] = len(some)
			some = append(some, o)
		case some[n].closed() && !o.closed():
			some[n] = o
		}
	}
	return some
}

func (m *Metrics) all() []*observed {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Clone(m.informers)
}

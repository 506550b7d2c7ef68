package metrics

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/meter"
	"github.com/larder-dev/larder/reflector"
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

// Metrics of files and of the whole process, not of single informers.
var (
	storeSize = prometheus.NewDesc("larder_store_size_bytes", "Size of the store's file.", fileLabels, nil)
	storeFree = prometheus.NewDesc("larder_store_free_bytes", "Free pages within the store's file.", fileLabels, nil)
	written   = prometheus.NewDesc("larder_store_written_bytes_total",
		"Pages written to the store's file since it was opened, copies of the file included.", fileLabels, nil)
	receivedBytes = prometheus.NewDesc("larder_received_bytes_total",
		"Bytes received from API servers, as the network carries them; once Metrics.CountReceived is used.", nil, nil)

	fileLabels = []string{"file"}
)

// Bounds of histograms, in seconds for times. Each bucket is a series, so bounds distinguish only orders of magnitude.
var (
	handlerBuckets = []float64{.001, .01, .1, 1, 10}
	commitBuckets  = []float64{.001, .01, .1, 1, 10}
	changeBuckets  = []float64{1, 10, 100, 1000, 10_000}
)

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// commits has the metrics of commits to files, which are counted as they happen.
type commits struct {
	durations, changes *prometheus.HistogramVec
	failures           *prometheus.CounterVec
}

func newCommits() commits {
	return commits{
		durations: histogram("larder_commit_duration_seconds", "Time of an attempt to write to the store's file.",
			commitBuckets, fileLabels...),
		changes: histogram("larder_commit_changes", "Objects of one informer that a write changed; 0 if only the "+
			"resourceVersion moved.", changeBuckets, fileLabels...),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "larder_commit_failures_total",
			Help: "Attempts to write that failed; each is made again."}, fileLabels),
	}
}

func (c commits) all() []prometheus.Collector {
	return []prometheus.Collector{c.durations, c.changes, c.failures}
}

func (c commits) observe(file string, one informer.Commit) {
	c.durations.WithLabelValues(file).Observe(one.Took.Seconds())
	failures := c.failures.WithLabelValues(file) // WithLabelValues creates the series with the value 0.
	if one.Err != nil {
		failures.Inc()
		return
	}
	c.changes.WithLabelValues(file).Observe(float64(one.Changes))
}

func (c commits) forget(file string) {
	c.durations.DeleteLabelValues(file)
	c.changes.DeleteLabelValues(file)
	c.failures.DeleteLabelValues(file)
}

func newCalls() *prometheus.HistogramVec {
	return histogram("larder_handler_duration_seconds", "Time that the handler took for a call.", handlerBuckets,
		slices.Concat(informerLabels, []string{"handler"})...)
}

// observed is an informer with its counters.
type observed struct {
	informer   *informer.Informer
	collection string
	labels     []string // labels are the values of informerLabels, without spare capacity: append must copy.
	calls      *prometheus.HistogramVec
}

func newObserved(i *informer.Informer) *observed {
	id := i.Identity()
	return &observed{
		informer: i, collection: id.ID(), calls: newCalls(),
		labels: slices.Clip([]string{id.Group, id.Version, id.Resource, id.Namespace, id.ID()}),
	}
}

// file returns the value of the label file; "" for an informer without a file.
func (o *observed) file() string { return pathOf(o.informer.File()) }

func pathOf(f *store.Store) string {
	if f == nil {
		return ""
	}
	return strings.ToValidUTF8(f.Path(), "\uFFFD")
}

func (o *observed) closed() bool {
	f := o.informer.File()
	if f == nil {
		return false
	}
	_, _, err := f.Size()
	return errors.Is(err, store.ErrClosed)
}

func (o *observed) collect(ch chan<- prometheus.Metric) {
	s := o.informer.Status()
	for _, m := range table {
		m.read(&s, func(value float64, label ...string) {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, value, append(o.labels, label...)...)
		})
	}
	o.calls.Collect(ch)
}

// collectFile sends the metrics of a file. It sends none for a closed or unreadable file, because the metrics of the
// file's informers show the reason.
func collectFile(ch chan<- prometheus.Metric, f *store.Store) {
	size, free, err := f.Size()
	if err != nil {
		return
	}
	path := pathOf(f)
	ch <- prometheus.MustNewConstMetric(storeSize, prometheus.GaugeValue, float64(size), path)
	ch <- prometheus.MustNewConstMetric(storeFree, prometheus.GaugeValue, float64(free), path)
	ch <- prometheus.MustNewConstMetric(written, prometheus.CounterValue, float64(f.Written()), path)
}

// classes are the classes of errors for alerts, described in docs/metrics.md. An error has the first class that fits.
var classes = []struct {
	name string
	fits func(error) bool
}{
	{"none", func(err error) bool { return err == nil }},
	{"NoSpace", is(store.ErrNoSpace)},
	{"Replaced", is(store.ErrReplaced, store.ErrOverwritten)},
	{"OutcomeUnknown", is(store.ErrOutcomeUnknown)},
	{"Damaged", is(entry.ErrDamaged)},
	{"SlowDisk", is(store.ErrSlowDisk)},
	{"Closed", is(store.ErrClosed)},
	{"OtherCluster", is(store.ErrOtherCluster)},
	{"Strays", is(reflector.ErrStrays)},
	{"Denied", apierrors.IsUnauthorized},
	{"Forbidden", apierrors.IsForbidden},
	{"NotServed", func(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) }},
	{"Connection", func(err error) bool { // client-go returns this error for a connection that breaks during a watch.
		return apierrors.HasStatusCause(err, "ClientWatchDecoding")
	}},
	{"Server", func(err error) bool {
		var answer apierrors.APIStatus
		return errors.As(err, &answer) || errors.Is(err, reflector.ErrPutOff) // ErrPutOff: the server did not answer in time
	}},
	{"Connection", func(err error) bool {
		var network net.Error
		return errors.As(err, &network) || is(io.EOF, io.ErrUnexpectedEOF, reflector.ErrShortWatch, reflector.ErrSilent,
			reflector.ErrOverdue)(err)
	}},
	{"Other", func(error) bool { return true }},
}

func is(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func classOf(err error) string {
	for _, c := range classes {
		if c.fits(err) {
			return c.name
		}
	}
	return ""
}

package metrics

import (
	"errors"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// Metrics of files and of the whole process, not of single informers.
var (
	storeSize = prometheus.NewDesc("larder_store_size_bytes", "Size of the store's file.", fileLabels, nil)
	storeFree = prometheus.NewDesc("larder_store_free_bytes", "Free pages within the store's file.", fileLabels, nil)
	written   = prometheus.NewDesc("larder_store_written_bytes_total",
		"Pages written to the store's file since it was opened, rebuilding and compaction included.", fileLabels, nil)
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

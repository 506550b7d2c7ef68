package metrics

import (
	"errors"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// sources are the values of the label source.
var sources = []informer.Source{informer.Live, informer.FromDisk, informer.None}

// The metrics that are no informer's.
var (
	storeSize = prometheus.NewDesc("larder_store_size_bytes", "Size of the store's file.", []string{"file"}, nil)
	storeFree = prometheus.NewDesc("larder_store_free_bytes", "Free pages within the store's file.",
		[]string{"file"}, nil)
	storeWritten = prometheus.NewDesc("larder_store_written_bytes_total",
		"Pages written to the store's file since it was opened.", []string{"file"}, nil)
	receivedBytes = prometheus.NewDesc("larder_received_bytes_total",
		"Bytes received from API servers, as the network carries them.", nil, nil)
)

// observed is an informer with its counters.
type observed struct {
	informer   *informer.Informer
	collection string
	labels     []string // the values of informerLabels; no room to append in place
	counted
}

// counted has the metrics that are updated when commits and calls happen.
type counted struct {
	durations, changes, calls *prometheus.HistogramVec
	failures                  *prometheus.CounterVec
}

func newCounted() counted {
	histogram := func(name, help string, buckets []float64, more ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets},
			slices.Concat(informerLabels, more))
	}
	return counted{
		durations: histogram("larder_commit_duration_seconds", "Time of an attempt to write to the store.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
		changes: histogram("larder_commit_changes", "Number of objects that one write to the store changed.",
			[]float64{0, 1, 4, 16, 64, 256, 1024, 4096, 16384, 65536}),
		calls: histogram("larder_handler_duration_seconds", "Time that the handler took for a call.",
			[]float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 60}, "handler"),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "larder_commit_failures_total",
			Help: "Number of failed attempts to write to the store."}, informerLabels),
	}
}

func (c counted) all() []prometheus.Collector {
	return []prometheus.Collector{c.durations, c.changes, c.calls, c.failures}
}

func newObserved(i *informer.Informer) *observed {
	id := i.Identity()
	o := &observed{
		informer: i, collection: id.ID(), counted: newCounted(),
		labels: slices.Clip([]string{id.Group, id.Version, id.Resource, id.Namespace, id.ID()}),
	}
	o.failures.WithLabelValues(o.labels...) // shown as 0
	return o
}

// closed reports whether the informer's store has been closed.
func (o *observed) closed() bool {
	f := o.informer.File()
	if f == nil {
		return false
	}
	_, _, err := f.Size()
	return errors.Is(err, store.ErrClosed)
}

func (o *observed) committed(c informer.Commit) {
	o.durations.WithLabelValues(o.labels...).Observe(c.Took.Seconds())
	if c.Err != nil {
		o.failures.WithLabelValues(o.labels...).Inc()
		return
	}
	o.changes.WithLabelValues(o.labels...).Observe(float64(c.Changes))
}

// collect sends the informer's metrics.
func (o *observed) collect(ch chan<- prometheus.Metric) {
	s := o.informer.Status()
	for _, m := range table {
		m.read(&s, func(value float64, label ...string) {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, value, append(o.labels, label...)...)
		})
	}
	for _, c := range o.all() {
		c.Collect(ch)
	}
}

// collectFile sends the metrics of a file. It sends nothing if the file is closed or cannot be read: then the metrics
// of its informers say why.
func collectFile(ch chan<- prometheus.Metric, f *store.Store) {
	size, free, err := f.Size()
	if err != nil {
		return
	}
	path := strings.ToValidUTF8(f.Path(), "\uFFFD")
	ch <- prometheus.MustNewConstMetric(storeSize, prometheus.GaugeValue, float64(size), path)
	ch <- prometheus.MustNewConstMetric(storeFree, prometheus.GaugeValue, float64(free), path)
	ch <- prometheus.MustNewConstMetric(storeWritten, prometheus.CounterValue, float64(f.Written()), path)
}

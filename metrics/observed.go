package metrics

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// sources are the values of the label source.
var sources = []informer.Source{informer.Live, informer.FromDisk, informer.None}

// observed is an informer with its counters.
type observed struct {
	informer   *informer.Informer
	collection string
	labels     []string // the values of informerLabels; no room to append in place
	histograms
	failures atomic.Int64
}

func newObserved(i *informer.Informer) *observed {
	id := i.Identity()
	labels := []string{id.Group, id.Version, id.Resource, id.Namespace, id.ID()}
	return &observed{informer: i, collection: id.ID(), labels: slices.Clip(labels), histograms: newHistograms()}
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
		o.failures.Add(1)
		return
	}
	o.changes.WithLabelValues(o.labels...).Observe(float64(c.Changes))
}

// collect sends the informer's metrics.
func (o *observed) collect(ch chan<- prometheus.Metric) {
	s := o.informer.Status()
	gauge := func(d *prometheus.Desc, v float64, more ...string) { o.send(ch, d, prometheus.GaugeValue, v, more...) }
	gauge(queuedItems, float64(s.Pending))
	gauge(synced, oneIf(s.Synced))
	gauge(persistent, oneIf(s.Persistent))
	gauge(unguarded, float64(len(s.Unguarded)))
	for _, source := range sources {
		gauge(dataSource, oneIf(s.Source == source), string(source))
		o.send(ch, sourceChanges, prometheus.CounterValue, float64(s.SourceChanges[source]), string(source))
	}
	for _, c := range classes {
		gauge(degraded, oneIf(classOf(s.Err) == c), string(c))
	}
	for _, reason := range reflector.RelistReasons() {
		if reason.Rewrites() {
			gauge(rewriting, oneIf(s.Rewriting == reason), string(reason))
		}
	}
	if s.Source != informer.None || s.Err == nil { // else the store may not have been readable
		gauge(objects, float64(s.Objects))
	}
	if v, ok := lastDigits(s.ResourceVersion); ok {
		gauge(resourceVersion, v)
	}
	if !s.LastContact.IsZero() {
		gauge(lastContact, float64(s.LastContact.UnixNano())/1e9)
	}
	if !s.StoredContact.IsZero() {
		gauge(resourceVersionAge, max(0, time.Since(s.StoredContact).Seconds()))
	}
	o.collectCounters(ch, s)
	o.collectHandlers(ch, s.Handlers)
	o.collectDurable(ch, s.Durable)
	for _, h := range o.all() {
		h.Collect(ch)
	}
}

func (o *observed) collectCounters(ch chan<- prometheus.Metric, s informer.Status) {
	counter := func(d *prometheus.Desc, n int, more ...string) {
		o.send(ch, d, prometheus.CounterValue, float64(n), more...)
	}
	counter(watches, s.Reflector.Watches)
	counter(resumes, s.Reflector.Resumes)
	counter(listRequests, s.Reflector.Pages)
	for _, reason := range reflector.RelistReasons() {
		counter(relists, s.Reflector.Relists[reason], string(reason))
	}
	for _, cause := range audit.Causes() {
		counter(incidents, s.IncidentTotals[cause], string(cause))
	}
	counter(skipped, s.Skipped+s.Reflector.Skipped)
	counter(failures, int(o.failures.Load()))
}

func (o *observed) collectHandlers(ch chan<- prometheus.Metric, handlers []informer.HandlerStatus) {
	byName := map[string]informer.HandlerStatus{}
	for _, h := range handlers {
		sum := byName[h.Name]
		byName[h.Name] = informer.HandlerStatus{Pending: sum.Pending + h.Pending, Merged: sum.Merged + h.Merged}
	}
	for name, h := range byName {
		o.send(ch, handlerPending, prometheus.GaugeValue, float64(h.Pending), name)
		o.send(ch, handlerMerged, prometheus.CounterValue, float64(h.Merged), name)
	}
}

func (o *observed) collectDurable(ch chan<- prometheus.Metric, handlers []durable.Status) {
	for _, h := range handlers {
		for d, v := range map[*prometheus.Desc]float64{
			durableBehind: float64(h.Behind), durableFailing: float64(h.Failing), durableStalled: oneIf(h.Stalled),
			durableReplaying: oneIf(h.Replaying),
		} {
			o.send(ch, d, prometheus.GaugeValue, v, h.Name)
		}
	}
}

func (o *observed) send(
	ch chan<- prometheus.Metric, d *prometheus.Desc, t prometheus.ValueType, v float64, more ...string,
) {
	ch <- prometheus.MustNewConstMetric(d, t, v, append(o.labels, more...)...)
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

// lastDigits returns the last 15 digits of a resourceVersion, as client-go shows it: a float64 holds them exactly.
func lastDigits(rv string) (float64, bool) {
	if len(rv) > 15 {
		rv = rv[len(rv)-15:]
	}
	n, err := strconv.ParseUint(rv, 10, 64)
	return float64(n), err == nil
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

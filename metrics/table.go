package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/reflector"
)

var informerLabels = []string{"group", "version", "resource", "namespace", "collection"}

// send sends one sample of a metric. label is the value of the metric's additional label, if the metric has one.
type send func(value float64, label ...string)

// metric is a metric of an informer that is read at a scrape.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(s *informer.Status, send send)
}

var table = []metric{
	gauge("larder_queued_items", "What was received and is not stored yet; at most 8,192.",
		func(s *informer.Status) float64 { return float64(s.Pending) }),
	gaugeOf("larder_resource_version",
		"The 15 least significant digits of the stored resourceVersion.", "",
		func(s *informer.Status, send send) {
			if v, ok := lastDigits(s.ResourceVersion); ok {
				send(v)
			}
		}),
	gaugeOf("larder_objects", "Objects in the store.", "", func(s *informer.Status, send send) {
		if s.Source != informer.None || s.Err == nil { // An error without a source may mean that the store was unreadable.
			send(float64(s.Objects))
		}
	}),
	gauge("larder_informer_synced", "1 if HasSynced.",
		func(s *informer.Status) float64 { return oneIf(s.Synced) }),
	gauge("larder_persistent", "1 if what is held goes to a file; 0 if it is in memory only, for good or until another "+
		"process gives the file free.",
		func(s *informer.Status) float64 { return oneIf(s.Persistent) }),
	gaugeOf("larder_source", "Always 1: where the data comes from that readers see (live, disk, none).", "source",
		func(s *informer.Status, send send) { send(1, string(s.Source)) }),
	counter("larder_source_changes_total", "How often that has changed.",
		func(s *informer.Status) (n float64) {
			for _, changes := range s.SourceChanges {
				n += float64(changes)
			}
			return n
		}),
	gaugeOf("larder_known_defect", "Always 1: a kind of known defect that the objects have.", "kind",
		func(s *informer.Status, send send) {
			for _, n := range s.Notes {
				send(1, string(n.Kind))
			}
		}),
	gaugeOf("larder_degraded", "Always 1: the class of the error that the informer has, or none.", "class",
		func(s *informer.Status, send send) { send(1, classOf(s.Err)) }),
	gaugeOf("larder_last_contact_timestamp_seconds",
		"When the API server last confirmed the objects as its present state, or changed them, in this process or an "+
			"earlier one.", "",
		func(s *informer.Status, send send) {
			if !s.LastContact.IsZero() {
				send(float64(s.LastContact.UnixNano()) / 1e9)
			}
		}),
	gaugeOf("larder_resource_version_age_seconds",
		"How old the stored resourceVersion is: the time since the last contact before it was stored.", "",
		func(s *informer.Status, send send) {
			if !s.StoredContact.IsZero() {
				send(max(0, time.Since(s.StoredContact).Seconds()))
			}
		}),

	counter("larder_watches_total", "Watch requests; each but the first is a restart of the watch.",
		func(s *informer.Status) float64 { return float64(s.Reflector.Watches) }),
	counter("larder_resumes_total", "Watches that the API server took up at a resourceVersion that was held.",
		func(s *informer.Status) float64 { return float64(s.Reflector.Resumes) }),
	counter("larder_list_requests_total", "List requests; each page is one.",
		func(s *informer.Status) float64 { return float64(s.Reflector.Pages) }),
	counterOf("larder_relists_total", "Lists after the first, by reason; of a reason that has not occurred there is "+
		"none, but Expired.", "reason",
		func(s *informer.Status, send send) {
			for _, reason := range reflector.RelistReasons() {
				if n := s.Reflector.Relists[reason]; n > 0 || reason == reflector.ReasonExpired {
					send(float64(n), string(reason))
				}
			}
		}),
	gaugeOf("larder_rewriting", "Why stored objects are being, or are to be, written anew: 1 while they are.", "reason",
		func(s *informer.Status, send send) {
			if s.Rewriting != "" {
				send(1, string(s.Rewriting))
			}
		}),
	counterOf("larder_incidents_total", "Times that stored objects were not what the API server has, and were repaired, "+
		"by what noticed it.", "cause", func(s *informer.Status, send send) {
		for _, cause := range audit.Causes() {
			send(float64(s.Incidents[cause]), string(cause))
		}
	}),
	gaugeOf("larder_seeded", "1 if the informer has begun with a seed, 0 if a seed would not do; none if it has not "+
		"asked for one.", "",
		func(s *informer.Status, send send) {
			if s.Seed != nil {
				send(oneIf(s.Seed.Err == nil))
			}
		}),
	gauge("larder_unguarded",
		"Changes of the API server that would not be noticed, since a guard is off; the log and the status name them.",
		func(s *informer.Status) float64 { return float64(len(s.Unguarded)) }),
	counter("larder_skipped_objects_total",
		"Objects and events that were left out because they could not be understood or stored.",
		func(s *informer.Status) float64 { return float64(s.Skipped + s.Reflector.Skipped) }),

	ofHandlers(gaugeOf, "larder_handler_pending_calls",
		"Calls that wait for the handler. From 1,024 on updates of one object are merged.",
		func(h informer.HandlerStatus) int { return h.Pending }),
	ofHandlers(counterOf, "larder_handler_merged_updates_total",
		"Updates that the handler received merged with an earlier one.",
		func(h informer.HandlerStatus) int { return h.Merged }),
	ofDurable("larder_durable_behind", "Changes that a durable handler has not acknowledged, at most.",
		func(h durable.Status) float64 { return float64(h.Behind) }),
	ofDurable("larder_durable_failing_keys",
		"Keys that a durable handler must receive again, or has not answered.",
		func(h durable.Status) float64 { return float64(h.Failing) }),
	ofDurable("larder_durable_stalled",
		"1 if so many keys of a durable handler fail that it receives nothing else.",
		func(h durable.Status) float64 { return oneIf(h.Stalled) }),
	ofDurable("larder_durable_replaying", "1 while a durable handler receives every object.",
		func(h durable.Status) float64 { return oneIf(h.Replaying) }),
}

func gauge(name, help string, value func(s *informer.Status) float64) metric {
	return gaugeOf(name, help, "", func(s *informer.Status, send send) { send(value(s)) })
}

func counter(name, help string, value func(s *informer.Status) float64) metric {
	return counterOf(name, help, "", func(s *informer.Status, send send) { send(value(s)) })
}

// gaugeOf returns a metric with one sample for each value of the additional label. With label "" the metric has none.
func gaugeOf(name, help, label string, read func(s *informer.Status, send send)) metric {
	labels := informerLabels
	if label != "" {
		labels = slices.Concat(labels, []string{label})
	}
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, read}
}

func counterOf(name, help, label string, read func(s *informer.Status, send send)) metric {
	m := gaugeOf(name, help, label, read)
	m.kind = prometheus.CounterValue
	return m
}

// ofHandlers returns a metric of handlers. The values of handlers with the same name are added up.
func ofHandlers(
	kind func(name, help, label string, read func(s *informer.Status, send send)) metric,
	name, help string, value func(informer.HandlerStatus) int,
) metric {
	return kind(name, help, "handler", func(s *informer.Status, send send) {
		sums := map[string]int{}
		for _, h := range s.Handlers {
			sums[h.Name] += value(h)
		}
		for handler, sum := range sums {
			send(float64(sum), handler)
		}
	})
}

func ofDurable(name, help string, value func(durable.Status) float64) metric {
	return gaugeOf(name, help, "handler", func(s *informer.Status, send send) {
		for _, h := range s.Durable {
			send(value(h), h.Name)
		}
	})
}

// lastDigits returns the last 15 digits of a resourceVersion, which a float64 represents exactly, as client-go does.
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

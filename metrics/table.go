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

// informerLabels are the labels of every metric of an informer.
var informerLabels = []string{"group", "version", "resource", "namespace", "collection"}

// send sends one sample of a metric, with the value of its further label, if it has one.
type send func(value float64, label ...string)

// metric is a metric of an informer that is read when it is gathered.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(s *informer.Status, send send)
}

// table has the metrics that are read from an informer's Status.
var table = []metric{
	gauge("informer_queued_items", "Number of items that were received and are not stored yet.",
		func(s *informer.Status) float64 { return float64(s.Pending) }),
	gaugeOf("informer_store_resource_version",
		"The 15 least significant digits of the resource version of the store.", "",
		func(s *informer.Status, send send) {
			if v, ok := lastDigits(s.ResourceVersion); ok {
				send(v)
			}
		}),
	gaugeOf("larder_objects", "Number of objects in the store.", "", func(s *informer.Status, send send) {
		if s.Source != informer.None || s.Err == nil { // else the store may not have been readable
			send(float64(s.Objects))
		}
	}),
	gauge("larder_informer_synced", "Whether the informer has synced.",
		func(s *informer.Status) float64 { return oneIf(s.Synced) }),
	gauge("larder_persistent", "Whether what the informer holds is, or will be with the next commit, in a file.",
		func(s *informer.Status) float64 { return oneIf(s.Persistent) }),
	gaugeOf("larder_source", "Where the data comes from that readers see: 1 for one of live, disk and none.", "source",
		func(s *informer.Status, send send) {
			for _, source := range sources {
				send(oneIf(s.Source == source), string(source))
			}
		}),
	counterOf("larder_source_changes_total",
		"Number of times that the data came to be from live, disk or none.", "source",
		func(s *informer.Status, send send) {
			for _, source := range sources {
				send(float64(s.SourceChanges[source]), string(source))
			}
		}),
	gaugeOf("larder_degraded", "Why the informer is degraded: 1 for one class of errors, or for none if it is healthy.",
		"class", func(s *informer.Status, send send) {
			for _, c := range classes {
				send(oneIf(classOf(s.Err) == c.name), c.name)
			}
		}),
	gaugeOf("larder_last_contact_timestamp_seconds", "When the API server was last heard.", "",
		func(s *informer.Status, send send) {
			if !s.LastContact.IsZero() {
				send(float64(s.LastContact.UnixNano()) / 1e9)
			}
		}),
	gaugeOf("larder_resource_version_age_seconds",
		"Time since the last contact with the API server before the stored resource version was stored.", "",
		func(s *informer.Status, send send) {
			if !s.StoredContact.IsZero() {
				send(max(0, time.Since(s.StoredContact).Seconds()))
			}
		}),

	counter("larder_watches_total", "Number of watch requests.",
		func(s *informer.Status) float64 { return float64(s.Reflector.Watches) }),
	counter("larder_resumes_total", "Number of watches that the API server took up at a resource version that was held.",
		func(s *informer.Status) float64 { return float64(s.Reflector.Resumes) }),
	counter("larder_list_requests_total", "Number of list requests; each page is one.",
		func(s *informer.Status) float64 { return float64(s.Reflector.Pages) }),
	counterOf("larder_relists_total", "Number of lists after the first, by reason.", "reason",
		func(s *informer.Status, send send) {
			for _, reason := range reflector.RelistReasons() {
				send(float64(s.Reflector.Relists[reason]), string(reason))
			}
		}),
	gaugeOf("larder_rewriting", "Why stored objects are being, or are to be, written anew: 1 for one reason, 0 for the "+
		"others.", "reason", func(s *informer.Status, send send) {
		for _, reason := range reflector.RelistReasons() {
			if reason.Rewrites() {
				send(oneIf(s.Rewriting == reason), string(reason))
			}
		}
	}),
	counterOf("larder_incidents_total", "Number of times that stored objects were found to be not what the API server "+
		"has, and were repaired, by what noticed it.", "cause", func(s *informer.Status, send send) {
		for _, cause := range audit.Causes() {
			send(float64(s.IncidentTotals[cause]), string(cause))
		}
	}),
	gaugeOf("larder_seeded", "Whether the informer has begun with a seed, in place of the first list.", "",
		func(s *informer.Status, send send) {
			if s.Seed != nil {
				send(oneIf(s.Seed.Err == nil))
			}
		}),
	gauge("larder_unguarded",
		"Number of changes of the API server that would not be noticed; the informer's status and log name them.",
		func(s *informer.Status) float64 { return float64(len(s.Unguarded)) }),
	counter("larder_skipped_objects_total",
		"Number of objects and events that were left out because they could not be understood or stored.",
		func(s *informer.Status) float64 { return float64(s.Skipped + s.Reflector.Skipped) }),

	ofHandlers(gaugeOf, "larder_handler_pending_calls", "Number of calls that wait for the handler.",
		func(h informer.HandlerStatus) int { return h.Pending }),
	ofHandlers(counterOf, "larder_handler_merged_updates_total",
		"Number of updates that the handler was told together with an earlier one.",
		func(h informer.HandlerStatus) int { return h.Merged }),
	ofDurable("larder_durable_behind", "Number of changes that a durable handler has not acknowledged, at most.",
		func(h durable.Status) float64 { return float64(h.Behind) }),
	ofDurable("larder_durable_failing_keys",
		"Number of keys that a durable handler has to be told again, or has not answered.",
		func(h durable.Status) float64 { return float64(h.Failing) }),
	ofDurable("larder_durable_stalled",
		"Whether so many keys of a durable handler fail that it is told of nothing else.",
		func(h durable.Status) float64 { return oneIf(h.Stalled) }),
	ofDurable("larder_durable_replaying", "Whether a durable handler is being told of every object.",
		func(h durable.Status) float64 { return oneIf(h.Replaying) }),
}

// gauge returns a metric that has one value.
func gauge(name, help string, value func(s *informer.Status) float64) metric {
	return gaugeOf(name, help, "", func(s *informer.Status, send send) { send(value(s)) })
}

func counter(name, help string, value func(s *informer.Status) float64) metric {
	return counterOf(name, help, "", func(s *informer.Status, send send) { send(value(s)) })
}

// gaugeOf returns a metric that has a value for each value of a further label; "" is none.
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

// ofHandlers returns a metric of the handlers. The values of handlers with the same name are added up.
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

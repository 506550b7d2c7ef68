package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// informerLabels are the labels of every metric of an informer.
var informerLabels = []string{"group", "version", "resource", "namespace", "collection"}

// The metrics that are made when they are gathered; the histograms describe themselves.
var (
	queuedItems     = ofInformer("informer_queued_items", "Number of items that were received and are not stored yet.")
	resourceVersion = ofInformer("informer_store_resource_version",
		"The 15 least significant digits of the resource version of the store.")

	objects    = ofInformer("larder_objects", "Number of objects in the store.")
	synced     = ofInformer("larder_informer_synced", "Whether the informer has synced.")
	persistent = ofInformer("larder_persistent",
		"Whether what the informer holds is, or will be with the next commit, in a file.")
	dataSource = ofInformer("larder_source",
		"Where the data comes from that readers see: 1 for one of live, disk and none.", "source")
	sourceChanges = ofInformer("larder_source_changes_total",
		"Number of times that the data came to be from live, disk or none.", "source")
	degraded = ofInformer("larder_degraded",
		"Why the informer is degraded: 1 for one class of errors, or for none if it is healthy.", "class")
	lastContact        = ofInformer("larder_last_contact_timestamp_seconds", "When the API server was last heard.")
	resourceVersionAge = ofInformer("larder_resource_version_age_seconds",
		"Time since the last contact with the API server before the stored resource version was stored.")

	watches = ofInformer("larder_watches_total", "Number of watch requests.")
	resumes = ofInformer("larder_resumes_total",
		"Number of watches that the API server took up at a resource version that was held.")
	listRequests = ofInformer("larder_list_requests_total", "Number of list requests; each page is one.")
	relists      = ofInformer("larder_relists_total", "Number of lists after the first, by reason.", "reason")
	rewriting    = ofInformer("larder_rewriting",
		"Why stored objects are being, or are to be, written anew: 1 for one reason, 0 for the others.", "reason")
	incidents = ofInformer("larder_incidents_total",
		"Number of times that stored objects were found to be not what the API server has, and were repaired, by what "+
			"noticed it.", "cause")
	unguarded = ofInformer("larder_unguarded",
		"Number of changes of the API server that would not be noticed; the informer's status and log name them.")
	skipped = ofInformer("larder_skipped_objects_total",
		"Number of objects and events that were left out because they could not be understood or stored.")
	failures = ofInformer("larder_commit_failures_total", "Number of failed attempts to write to the store.")

	handlerPending = ofInformer("larder_handler_pending_calls", "Number of calls that wait for the handler.", "handler")
	handlerMerged  = ofInformer("larder_handler_merged_updates_total",
		"Number of updates that the handler was told together with an earlier one.", "handler")

	durableBehind = ofInformer("larder_durable_behind",
		"Number of changes that a durable handler has not acknowledged, at most.", "handler")
	durableFailing = ofInformer("larder_durable_failing_keys",
		"Number of keys that a durable handler has to be told again, or has not answered.", "handler")
	durableStalled = ofInformer("larder_durable_stalled",
		"Whether so many keys of a durable handler fail that it is told of nothing else.", "handler")
	durableReplaying = ofInformer("larder_durable_replaying", "Whether a durable handler is being told of every object.",
		"handler")

	storeSize    = describe("larder_store_size_bytes", "Size of the store's file.", "file")
	storeFree    = describe("larder_store_free_bytes", "Free pages within the store's file.", "file")
	storeWritten = describe("larder_store_written_bytes_total", "Pages written to the store's file since it was opened.",
		"file")
	receivedBytes = describe("larder_received_bytes_total",
		"Bytes received from API servers, as the network carries them.")
)

var descs = []*prometheus.Desc{
	queuedItems, resourceVersion, objects, synced, persistent, dataSource, sourceChanges, degraded, lastContact,
	resourceVersionAge,
	watches, resumes, listRequests, relists, rewriting, incidents, unguarded, skipped, failures, handlerPending,
	handlerMerged,
	durableBehind, durableFailing, durableStalled, durableReplaying,
	storeSize, storeFree, storeWritten, receivedBytes,
}

func ofInformer(name, help string, more ...string) *prometheus.Desc {
	return describe(name, help, slices.Concat(informerLabels, more)...)
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// histograms has the metrics that are updated when commits and calls happen.
type histograms struct {
	durations, changes, calls *prometheus.HistogramVec
}

func newHistograms() histograms {
	return histograms{
		durations: newHistogram("larder_commit_duration_seconds", "Time of an attempt to write to the store.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
		changes: newHistogram("larder_commit_changes", "Number of objects that one write to the store changed.",
			[]float64{0, 1, 4, 16, 64, 256, 1024, 4096, 16384, 65536}),
		calls: newHistogram("larder_handler_duration_seconds", "Time that the handler took for a call.",
			[]float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 60}, "handler"),
	}
}

func newHistogram(name, help string, buckets []float64, more ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets},
		slices.Concat(informerLabels, more))
}

func (h histograms) all() []*prometheus.HistogramVec {
	return []*prometheus.HistogramVec{h.durations, h.changes, h.calls}
}

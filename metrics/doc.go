// Package metrics exports Prometheus metrics of informers. Create one [Metrics], register it, and pass it to every
// informer:
//
//	m := metrics.New()
//	prometheus.MustRegister(m)
//	inf, err := informer.New(lw, &corev1.Pod{}, informer.Options{Observer: m, …})
//
// A scrape reads the informers' Status and their stores: each collection's state in one short transaction, and a few
// pages of each file. Only commits and handler calls are counted as they happen. The package starts no goroutine, and
// Metrics is safe for concurrent use.
//
// # Metrics
//
// docs/metrics.md describes the metrics. Each metric of an informer has the labels group, version, resource, namespace
// (empty for all) and collection. The label collection is entry.Identity.ID, which distinguishes selectors and
// representations. No label has the name of an object. A resource has about twenty series, and a file as many; each
// handler has ten more. A metric of a state, such as the source of the data, has one series with the value 1, for the
// current state.
//
// Pending calls and merged updates of handlers with the same name are added up. The counters of an informer start at 0.
// larder_handler_merged_updates_total decreases when a handler is removed.
//
// # Names of client-go
//
// All names begin with larder_, so a registry can also have client-go's metrics, as k8s.io/component-base registers
// them. larder_queued_items and larder_resource_version correspond to client-go's informer_queued_items and
// informer_store_resource_version. client-go's informer_processing_latency_seconds is the time for one event;
// larder_commit_duration_seconds is the time for a batch of events.
//
// # Lifetime of metrics
//
// The metrics of an informer exist from informer.New until its run ends, or until Close if it never runs. If its store
// is closed first, they exist until the next informer is created on the same collection. Informers that share a
// collection have one set of metrics, with the handlers of all. If two informers have the same collection in different
// files, or in memory, only the older informer with an open store has metrics, as in client-go. A program with several
// clusters uses a Metrics for each cluster, registered with prometheus.WrapRegistererWith and a label for the cluster.
package metrics

// Package metrics makes Prometheus metrics of informers. Make one [Metrics], register it, and give it to every
// informer:
//
//	m := metrics.New()
//	prometheus.MustRegister(m)
//	inf, err := informer.New(lw, &corev1.Pod{}, informer.Options{Observer: m, …})
//
// State is read from the informers' Status and from their stores when the metrics are gathered; only commits and calls
// of handlers are counted as they happen. A gathering reads the state of each collection in one short transaction, and
// a few pages of each file. The package starts no goroutine, and Metrics is safe for concurrent use.
//
// # Metrics
//
// docs/metrics.md lists them, with what each says. Each metric of an informer has the labels group, version, resource,
// namespace (empty: all) and collection, which is entry.Identity.ID: it distinguishes selectors and representations. No
// label has the name of an object. A resource has some twenty series, and a file as many; each handler has ten more. Of
// a state, such as where the data comes from, there is the series that holds, with the value 1; others are absent.
//
// The pending calls and merged updates of handlers with the same name are added up. The counters of an informer start
// at 0. larder_handler_merged_updates_total decreases when a handler is removed.
//
// # Names of client-go
//
// All names begin with larder_, so that a registry can have client-go's metrics too, as k8s.io/component-base registers
// them. larder_queued_items and larder_resource_version are what client-go's informer_queued_items and
// informer_store_resource_version are. client-go's informer_processing_latency_seconds is the time for one event; here
// events are stored in batches, whose time is larder_commit_duration_seconds.
//
// # Informers that come and go
//
// The metrics of an informer exist from informer.New until its run ends, or until Close if it is never run. If its
// store was closed instead, they exist until another informer is made on the same collection. Informers that share a
// collection have the same metrics, with the handlers of all. If two informers have the same collection of different
// files, or in memory, the older one whose store is open is shown, as in client-go. A
// program with informers for several clusters uses a Metrics for each, registered through prometheus.WrapRegistererWith
// with a label for the cluster.
package metrics

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
// Each metric of an informer has the labels group, version, resource, namespace (empty: all) and collection, which is
// entry.Identity.ID: it distinguishes selectors and representations. No label has the name of an object.
//
//	name                                      type       further labels
//	informer_queued_items                     gauge                What was received but is not stored yet; no more than 8,192.
//	informer_store_resource_version           gauge                The 15 least significant digits of the stored resourceVersion.
//	larder_objects                            gauge                Objects in the store.
//	larder_informer_synced                    gauge                1 if HasSynced.
//	larder_persistent                         gauge                1 if what is held goes to a file; 0 of what is in memory only, for good or until another process gives the file free.
//	larder_source                             gauge      source    1 for where readers' data comes from (live, disk, none), 0 for the others.
//	larder_source_changes_total               counter    source    How often they came to come from there. Informer.SubscribeSource tells of each.
//	larder_degraded                           gauge      class     1 for the class of the error that Status has, 0 for the others.
//	larder_last_contact_timestamp_seconds     gauge                When the server was last heard, in this run or an earlier one.
//	larder_resource_version_age_seconds       gauge                How old the stored resourceVersion is: the time since the last contact before it was stored.
//	larder_watches_total                      counter              Watch requests; each but the first is a restart of the watch.
//	larder_resumes_total                      counter              Watches that the server took up at a resourceVersion that was held; counted once that is known to hold.
//	larder_list_requests_total                counter              List requests; each page is one.
//	larder_relists_total                      counter    reason    Lists other than that of a cold start; reasons are those of package reflector.
//	larder_seeded                             gauge                1 if the informer has begun with a seed, 0 if a seed would not do; absent if it has not asked for one.
//	larder_rewriting                          gauge      reason    1 for why stored objects are being, or are to be, written anew, 0 for the other reasons to do so.
//	larder_incidents_total                    counter    cause     Times that stored objects were not what the server has, and were repaired: Audit or Damaged.
//	larder_unguarded                          gauge                Changes of the server that would not be noticed, since a guard is off; Status.Unguarded names them.
//	larder_skipped_objects_total              counter              Objects and events that were left out because they could not be understood or stored.
//	larder_commit_duration_seconds            histogram            Time of an attempt to write to the store.
//	larder_commit_changes                     histogram            Objects that one successful write changed; 0 if only the resourceVersion moved. What waits for a later write is counted with that.
//	larder_commit_failures_total              counter              Attempts that failed; each is made again.
//	larder_handler_pending_calls              gauge      handler   Calls that wait for the handler. From 1,024 on updates of one object merge.
//	larder_handler_merged_updates_total       counter    handler   Updates that were told together with an earlier one.
//	larder_handler_duration_seconds           histogram  handler   Time that the handler took for a call.
//	larder_durable_behind                     gauge      handler   Changes that a durable handler has not acknowledged, at most.
//	larder_durable_failing_keys               gauge      handler   Keys that it has to be told again, or has not answered.
//	larder_durable_stalled                    gauge      handler   1 if they are as many as there may be, so that it is told of nothing else.
//	larder_durable_replaying                  gauge      handler   1 while it is told of every object.
//	larder_store_size_bytes                   gauge      file      Size of the file; no label of the informers.
//	larder_store_free_bytes                   gauge      file      Free pages within it.
//	larder_store_written_bytes_total          counter    file      Pages written to it since it was opened, rebuilding and compaction included.
//	larder_received_bytes_total               counter              Bytes from API servers, once Metrics.CountReceived is used. No labels.
//
// The age of the resourceVersion is kept across restarts. On a quiet resource it grows up to a minute, until the server
// sends a bookmark. If it is older, the informer is behind or has no contact, and a restart would resume from there.
//
// The class is none while the informer is healthy. NoSpace, Replaced (another file has the store's name),
// OutcomeUnknown, Damaged, SlowDisk (a write has not returned for ten seconds) and Closed are errors of the store.
// Denied (401, 403), NotServed (404, 405) and Server are answers of the API server; Connection means no answer.
// OtherCluster means that other informers use the store for another cluster. Strays are objects that the ListerWatcher
// should not have listed. Other is any other error.
//
// The reasons of larder_relists_total are: for another or a restored server AheadOfServer, Rewound and ClusterChanged;
// for other attributes of the stored objects CodecChanged, SchemaChanged (Go types), TransformChanged and
// OpenAPIChanged; Expired for a 410; StoreDamaged, StoreIncomplete and Unreadable for the file; BadEvent for an event
// that cannot be decoded; LeftOut for objects that an earlier run refused; AuditMismatch for an audit's findings;
// NotResumable for a server without comparable resourceVersions.
//
// The pending calls and merged updates of handlers with the same name are added up. The counters of an informer start
// at 0. larder_handler_merged_updates_total decreases when a handler is removed.
//
// # Names of client-go
//
// The metrics named informer_ are client-go's, where they mean the same here. Its label "name", which distinguishes
// factories, is not set. client-go's informer_processing_latency_seconds is the time for one event; here events are
// stored in batches, whose time is larder_commit_duration_seconds. If a registry has client-go's metrics too, as
// k8s.io/component-base registers them, register these through prometheus.WrapRegistererWithPrefix.
//
// # Informers that come and go
//
// The metrics of an informer exist from informer.New until its run ends, or until Close if it is never run. If its
// store was closed instead, they exist until another informer is made on the same collection. If two informers have the
// same collection (of different files, or in memory), the older one whose store is open is shown, as in client-go. A
// program with informers for several clusters uses a Metrics for each, registered through prometheus.WrapRegistererWith
// with a label for the cluster.
package metrics

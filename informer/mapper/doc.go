// Package mapper is a RESTMapper that needs no API server: it answers from the discovery that a store keeps, and asks
// the server for what is not in that.
//
//	m, err := mapper.New(config, httpClient, st)
//	go m.Run(ctx)
//	mapping, err := m.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
//
// Call New, then Run for as long as the program lasts. A manager of controller-runtime gets one by
// controllerruntime.MapperProvider, and its cache calls Run.
//
// # What is answered, and from where
//
// A hit, that is a kind or resource that the server had when it was last asked, is answered from memory: with no
// request, and also while another caller waits for one. So what has been removed from the server since, or has got
// another scope, is answered as it was until the server is asked again.
//
// A miss asks the server, once for all callers who miss at the same time, and its word counts, that there is no such
// kind included (meta.IsNoMatchError). Each miss asks: a program that goes on asking for a kind that does not exist
// makes requests each time, as it does with controller-runtime's own mapper. All of discovery is fetched: two requests,
// or one per group-version from a server before 1.26.
//
// If the server cannot be asked, a miss fails with [ErrUnreachable] and the cause, which is no meta.IsNoMatchError:
// that a kind is not known does not mean that there is none. It waits ten seconds for that, or, if nothing is known at
// all, 32. After a failure misses fail at once for a while (full jitter below 0.8 seconds, doubled with each failure up
// to 30), and so do those that meet a request on which somebody has already waited in vain: callers may hold locks, as
// controller-runtime's caches do.
//
// A group-version whose server does not answer (an aggregated API that is down) keeps the resources that were known of
// it. A miss in its group is ErrUnreachable too.
//
// # What is kept
//
// Names, kinds and scopes of the resources, without subresources, as one document of the store; a few dozen KB for a
// cluster with many. Only Run writes: when the server has said something else than what is stored, or that is older
// than a day. A store that cannot be written, or whose document is damaged, is reported by Status and the log, and the
// mapper does without.
//
// # Refreshing
//
// Run asks the server once per process, as soon as it can be reached, unless a miss has before. It connects in turn
// with the store's informers and waits with them: while the link is down one of all these tries, and when the server is
// heard again they go on, eight at a time. There is no timer: kinds that are added later are found by a miss, and
// whatever else changes by the next process.
//
// # Ownership
//
// New starts nothing. Run's goroutine, and those of callers that miss, are the only ones, and Run's requests end with
// its context. All methods may be called concurrently; of several Runs one works at a time. The store must stay open
// until Run has returned; it is only read by New. One store is for one cluster.
package mapper

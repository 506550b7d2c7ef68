// Package mapper is a RESTMapper that works without an API server: it answers from the server's discovery, which it
// keeps in a store, and asks the server for kinds that are not in it.
//
//	m, err := mapper.New(config, httpClient, st)
//	go m.Run(ctx)
//	mapping, err := m.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
//
// Call New, then Run for as long as the program lasts. A manager of controller-runtime gets one by
// controllerruntime.MapperProvider, and its cache calls Run.
//
// # Answers
//
// A kind or resource that the server had at its last answer is a hit. It is answered from memory, without a request,
// also while another caller waits for one. So a kind that was removed from the server since, or has another scope, is
// answered as before until the server is asked again.
//
// A miss asks the server, once for all callers that miss at the same time. Its answer counts, also that there is no
// such kind (meta.IsNoMatchError). Each miss asks again: a program that keeps asking for a kind that does not exist
// makes requests each time, as with controller-runtime's own mapper. A request is for all of discovery: two HTTP
// requests, or one per group-version for servers before 1.26.
//
// If the server cannot be asked, a miss fails with [ErrUnreachable] and the cause, which is no meta.IsNoMatchError: an
// unknown kind may exist. A miss waits ten seconds for the server, or 32 if there is no discovery at all. After a
// failure, or a wait in vain, misses fail at once for a random time (below 0.8 seconds, doubled with each failure up to
// 30): callers may hold locks, as controller-runtime's caches do.
//
// A group-version whose own server does not answer (an aggregated API that is down) keeps its known resources. A miss
// in its group is ErrUnreachable too.
//
// # What is stored
//
// Names, kinds and scopes of the resources, without subresources, as one document of the store; a few dozen KB for a
// cluster with many. Only Run writes it: if the server's answer differs, or the document is older than a day. If the
// document cannot be written, or is damaged, Status and the log say so, and the mapper works without it. A store of
// larder sync has the document too.
//
// # Refreshing
//
// Run asks the server once per process, as soon as it can be reached, unless a miss has done so. It shares the limiter
// of the store's informers: while the link is down one of all these tries at a time, and when it is up again eight at a
// time go on. There is no timer: kinds that are added later are found by a miss, and other changes by the next process.
//
// # Ownership
//
// New starts no goroutine and only reads the store. Requests are made by Run's goroutine, whose requests end with its
// context, and by callers that miss. All methods may be called concurrently, Run too. The store must stay open until
// Run has returned. A store is for one cluster.
package mapper

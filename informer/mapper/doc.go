// Package mapper is a RESTMapper that works without an API server. It answers from the server's discovery, which it
// keeps in a store, and asks the server for kinds that are not in it.
//
//	m, err := mapper.New(config, httpClient, st)
//	go m.Run(ctx)
//	mapping, err := m.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
//
// Call New, then Run for as long as the program lasts. With controller-runtime, set the manager's option MapperProvider
// to controllerruntime.MapperProvider; the manager's cache then calls Run.
//
// # Answers
//
// A kind or resource in the known discovery is a hit. It is answered from memory without a request. A kind that the
// server has removed or changed since its last answer therefore stays a hit until the server is asked again.
//
// A miss asks the server, once for all callers that miss at the same time. If the new answer lacks the kind too, the
// caller gets an error that satisfies meta.IsNoMatchError. Each miss asks again: a program that keeps asking for a kind
// that does not exist makes requests each time, as with controller-runtime's own mapper. A request fetches all of
// discovery: two HTTP requests, or one per group-version for servers before 1.26.
//
// If the server cannot be asked, a miss fails with [ErrUnreachable] and the cause. That error does not satisfy
// meta.IsNoMatchError, since the kind may exist. A miss waits up to ten seconds for the server, or 32 if no discovery
// is known. After a failure or a timeout, misses fail at once for a random time, below 0.8 seconds at first and doubled
// with each failure up to 30.
//
// An aggregated API that is down keeps its known resources. A miss in its group fails with ErrUnreachable too.
//
// # The stored document
//
// The store holds the names, kinds and scopes of the resources and subresources as one document: a few dozen KB for a
// cluster with many resources. Only Run writes it, when the server's answer differs or the document is older than a
// day. If the document cannot be written, or is damaged, Status and the log report it, and the mapper works without it.
// "larder sync" writes that document into its store too.
//
// # Refreshing
//
// Run asks the server once per process, as soon as it can be reached, unless a miss has done so. It shares the limiter
// of the store's informers: while the server is unreachable one client tries at a time, and afterwards up to eight
// connect at a time. There is no timer. A kind that is added later is found by a miss; other changes are found by the
// next process.
//
// # Ownership
//
// New starts no goroutine and only reads the store. Requests are made by Run's goroutine, and end with its context, or
// by callers that miss. All methods may be called concurrently, Run too. The store must stay open until Run has
// returned. A store is for one cluster.
package mapper

// Package serve makes a store or a snapshot a Kubernetes API that can be read: kubectl, client-go, controller-runtime
// and every agent that lists and watches use it as they use an API server.
//
//	h, err := serve.New(serve.Mirror(st, mirrored), serve.Options{})
//	if err != nil { … }
//	defer h.Close()
//	http.Serve(listener, h)
//
// # What is answered
//
// Discovery, and get, list and watch of what is mirrored, as kube-apiserver 1.36 answers them: selectors, limit and
// continue, resourceVersion and resourceVersionMatch, bookmarks, sendInitialEvents, Tables, metadata, JSON, YAML and
// protobuf, gzip. docs/serve.md has a table of all differences. Where a client takes the encoding that is stored, bytes
// are copied and nothing is decoded.
//
// # Honest answers
//
// What is not mirrored is not empty: a resource that no collection has is absent from discovery and 404, with a hint. A
// request for more than what is mirrored (all namespaces, where one is; all pods, where those of a node are) is 403,
// with a hint, or answered with what there is and a Warning (Options.Narrow). A collection that is not open yet, or
// whose first list has not ended, is 429. Collections of metadata answer requests for metadata. Data older than a
// minute carry a Warning with the time from which they are. Secrets and what a store seals are absent unless
// Options.Confidential is set.
//
// # Consistency
//
// A list is one state, whatever its size: pages are read in transactions of their own, and what has changed since the
// first is undone, from the collection's history (package history). So no transaction is open while a client is waited
// for, and a continue token stays good as long as the history reaches back to it; then it expires, as kube-apiserver's
// do, with a token for the rest at the newest state. The resourceVersions are the API server's.
//
// A watch is a position in the history; nothing is queued for it. One that falls behind the history, whose client does
// not read, or whose collection is listed anew, closed or opened, ends with 410, and the client lists again, from here.
// An event is encoded once for all who watch in the same form.
//
// With Options.Forward, a get or a list of the latest state waits for forwarded writes of the same user to the same
// resource, for three seconds at most. Then it is forwarded, too, and so it is after a write whose answer lacks the
// resourceVersion of the new state.
//
// A watch may be asked for over a websocket: each event is a message, JSON as text and protobuf in binary. A request
// from a page of another origin needs a token then.
//
// A collection that the process has open without a history cannot be watched: discovery does not have that verb, and a
// watch is answered with 405. A list of it is cut off if the collection changes between two pages.
//
// # Concurrency and shutdown
//
// A Handler serves any number of requests. Close ends all watches and lists and waits for them.
package serve

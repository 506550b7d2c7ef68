// Package serve serves a store or a snapshot as a read-only Kubernetes API. kubectl, client-go, controller-runtime and
// agents that list and watch use it like an API server.
//
//	h, err := serve.New(serve.Mirror(st, mirrored), serve.Options{})
//	if err != nil { … }
//	defer h.Close()
//	http.Serve(listener, h)
//
// # Served requests
//
// The Handler answers discovery, and get, list and watch of mirrored resources, as kube-apiserver 1.36 does: selectors,
// limit and continue, resourceVersion and resourceVersionMatch, bookmarks, sendInitialEvents, Tables, metadata, JSON,
// YAML, protobuf and gzip. docs/serve.md has a table of all differences. If the client accepts the stored encoding,
// objects are copied without decoding.
//
// # Missing and stale data
//
// A resource that is not mirrored is never shown as empty: it is absent from discovery, and requests for it return 404
// with a hint. A request for more objects than are mirrored returns 403 with a hint: a list of all namespaces if one
// namespace is mirrored, for example. With Options.Narrow the response has the mirrored objects and a Warning. A
// collection that is not open yet, or whose first list has not ended, returns 429. A collection of metadata answers
// only requests for metadata. Data older than a minute carry a Warning with their time. Secrets and sealed resources
// are absent unless Options.Confidential is set.
//
// # Consistency
//
// All pages of a list show one state. Each page is read in its own transaction. Changes since the first page are undone
// with the collection's history (package history). No transaction stays open while the server waits for a client. A
// continue token is valid as long as the history reaches back to its state. After that a request with the token fails
// with 410 and, as in kube-apiserver, a new token for the rest of the list at the newest state. The resourceVersions
// are the API server's.
//
// A watch is a position in the history; it has no queue. It ends with 410 if the history no longer has that position,
// because the client does not read. A watch also ends if the collection is relisted, closed or opened. An event is
// encoded once for all watches with the same format.
//
// With Options.Forward, a get or a list of the latest state waits up to three seconds for the same user's forwarded
// writes to the same resource. If the collection still lacks them, the request is forwarded. The request is forwarded
// at once if the response to a write had no resourceVersion.
//
// A client can request a watch over a websocket. Each event is one message: text for JSON, binary for protobuf. A
// request from a page of another origin must then carry a token.
//
// A collection that this process has open without a history cannot be watched: discovery omits the verb, and a watch
// returns 405. A list is cut off if the collection changes between two pages.
//
// # Concurrency and shutdown
//
// A Handler serves any number of concurrent requests. Close ends all watches and lists and waits for them.
package serve

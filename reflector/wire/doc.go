// Package wire lists and watches a resource without decoding its objects. New returns a ListerWatcher whose lists and
// events have an entry.Undecoded for each object: its payload, as a codec of Larder stores it, and the little that a
// reflector reads of every object. Whoever wants the object decodes it then.
//
// # Requests
//
// The requests are those that the caller's function makes with its REST client, so throttling, credentials,
// impersonation, warnings, retries and proxies are the client's. So is the Accept header: the server answers in
// protobuf or JSON, as it can. The first bytes of an answer tell which; an answer in anything else is an error.
//
// # What is refused
//
// An answer that is cut off, whose lengths do not fit, or that has a frame or an object of more than 64 MiB is an
// error, and so is an object without a kind, a Table, or a list that is none. Then the whole list fails, or the watch
// ends with an ERROR event, as with client-go. Whether the fields of an object fit its type is not checked here.
//
// # Memory
//
// An answer is read through a buffer and never held as a whole. Each payload has memory of its own, so an object that
// is kept does not keep the page that it came in. (Only a JSON list that has its items before its kind is held until
// the kind has come.)
package wire

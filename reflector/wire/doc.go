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
// If a server answers in CBOR, which a client's configuration asks for with client-go's feature ClientsAllowCBOR, the
// request is made again for JSON, and so are all that follow.
//
// # What is refused
//
// An answer that is cut off, whose lengths do not fit, or that has a frame or an object of more than 64 MiB is an
// error, and so is an object without a kind, a Table, or a list that is none. Then the whole list fails, or the watch
// ends with an ERROR event, as with client-go. Only the error of an answer that broke off reads like client-go's for
// that: a reflector asks for smaller pages then, which would not help against the others.
//
// Whether the fields of an object fit its type is checked here only where the payload cannot be made without, or where
// labels are wanted. An object that fails is in its list all the same, as one that cannot be decoded (Undecoded.Err).
// An event about it ends the watch with an ERROR event, unless a list has had the object, and it could not be decoded
// then either; so a list that is made for such an event is made once for an object. Deletes are always events.
//
// # Memory
//
// An answer is read through a buffer and never held as a whole. Each payload has memory of its own, so an object that
// is kept does not keep the page that it came in. (Only a JSON list that has its items before its kind is held until
// the kind has come, and only if its items have no kind of their own; those of custom resources have.)
package wire

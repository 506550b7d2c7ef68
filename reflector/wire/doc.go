// Package wire lists and watches a resource without decoding its objects. New returns a ListerWatcher whose lists and
// events have an entry.Undecoded for each object: its payload, as a codec of Larder stores it, and the metadata that a
// reflector needs of every object. The object is decoded when it is first used.
//
// # Requests
//
// The caller's function makes the requests with its REST client, so throttling, credentials,
// impersonation, warnings, retries and proxies are the client's. So is the Accept header: the server answers in
// protobuf or JSON, as it can. The first bytes of an answer show its format; any other format is an error.
//
// A server answers in CBOR if the client's configuration asks for it with client-go's feature ClientsAllowCBOR. Then
// the request is made again for JSON, and all further requests ask for JSON.
//
// # Refused answers
//
// An answer is refused if it is cut off, if its lengths do not fit, or if it has a frame or an object of more than 64
// MiB. So is an object without a kind, a Table, and an answer that is not a list. Then the whole list fails, or the
// watch ends with an ERROR event, as with client-go. Only an answer that broke off has client-go's error for that: a
// reflector then asks for smaller pages, which would not help against the other errors.
//
// The payload of an object is checked against its type only if its format must be converted, or if labels are needed.
// An object that fails stays in its list, as one that cannot be decoded (Undecoded.Err). An event with that object ends
// the watch with an ERROR event, unless a list had the object and it could not be decoded then either. So an
// undecodable object causes at most one list. Deletions are always delivered.
//
// # Memory
//
// An answer is read through a buffer and never held as a whole. Each payload has its own memory, so a retained object
// does not keep its page in memory. (One case is held until the list's kind has arrived: a JSON list whose items
// precede its kind and have no kind of their own. Items of custom resources have one.)
package wire

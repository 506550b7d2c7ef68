// Package wire lists and watches a resource without decoding its objects. New returns a ListerWatcher whose lists and
// events have an entry.Undecoded for each object: its payload, as a codec of Larder stores it, and the metadata that a
// reflector needs of every object. An object is decoded when it is first used.
//
// # Requests
//
// The caller's function makes the requests with its REST client, so throttling, credentials, impersonation, warnings,
// retries, proxies and the Accept header are the client's. The first bytes of an answer show its format, protobuf or
// JSON; any other format is an error.
//
// A server answers in CBOR if the client's configuration asks for it with client-go's feature ClientsAllowCBOR. Then
// the request is made again for JSON, and all further requests ask for JSON.
//
// # Refused answers
//
// An answer is refused if it is cut off, if its lengths do not fit, or if it has a frame or an object of more than 64
// MiB. Objects without a kind, Tables, and answers that are not lists are refused too. Then the whole list fails, or
// the watch ends with an ERROR event, as with client-go. An answer that broke off has client-go's error: a reflector
// then asks for smaller pages. Other errors are worded differently, because smaller pages would not help.
//
// The payload of an object is checked against its type only if its format must be converted, or if labels are needed.
// An object that fails stays in its list as undecodable (Undecoded.Err). An event with an undecodable object ends the
// watch with an ERROR event, unless the object was undecodable in a list too. So an undecodable object causes at most
// one list. Deletions are always delivered.
//
// # Memory
//
// An answer is read through a buffer and never held as a whole. Each payload has its own memory, so a retained object
// does not keep its page in memory. (One kind of answer is held until the list's kind has arrived: a JSON list whose
// items precede its kind and have no kind of their own. Items of custom resources have a kind.)
package wire

// Package limiter coordinates the clients of one server within one process. While the link to the server is down, one
// client at a time tries to connect. The package also limits the numbers of concurrent connects and lists.
//
// The clients share a [Limiter], made by New. A client waits for a slot with Connect before it connects, and with List
// before it lists. [Slot.Done] releases the slot. Clients whose last attempt failed wait behind the others. A slot does
// not count while its request has had no byte of a response for 250 ms ([Slot.Await]); that applies to at most 64 slots
// of each kind. Lost reports a broken connection, Failed an attempt without a response, and Received that the server
// has sent data. A nil *Limiter never waits.
//
// Over HTTP/2, all clients can share a network connection if it exists when they begin. So after New, Lost and Ended,
// one client connects alone, until it has a connection ([Slot.Connected]). After ten seconds another client may try. If
// the first client makes no request within 250 ms, all clients may try.
//
//	up      ──Lost, Failed──► down    the first failure; the next attempt waits as for a single client
//	down    ──Failed────────► down    one backoff for all clients: they try one at a time, in the order of their calls
//	down    ──Received──────► up      waiting clients continue, eight connecting and two listing at a time
//
// After a 502, 503 or 504, perhaps only an aggregated API is unavailable. So one client whose last attempt did not fail
// may try at once, if the failure is the first of an outage or the failing client had failed before.
//
// An attempt that hangs blocks the others for ten seconds; then one more client may try. The package starts no
// goroutine. [Unanswered] and [Answered] classify errors. [Ceiling] limits the backoff. Clients without a Limiter also
// call Ceiling.
package limiter

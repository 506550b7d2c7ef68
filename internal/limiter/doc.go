// Package limiter coordinates the clients of one server within one process. While the link to the server is down, one
// client at a time tries to connect. It also bounds how many clients connect and list at a time.
//
// The clients share a [Limiter], made by New. Connect waits for a slot before a connection is made, and List before a
// list; Done gives a slot back. Clients that failed the last time wait behind the others. A slot whose request has had
// no byte of an answer for 250 ms does not count ([Slot.Await]), at most 64 of each kind at a time. Lost reports a
// broken connection, Failed an attempt without an answer, and Heard that the server has sent something. A nil *Limiter
// never waits.
//
// Over HTTP/2 all clients can share a network connection, if there is one when they begin. So after New, Lost and Ended
// one client connects alone, until it has a connection ([Slot.Connected]). After ten seconds another may try, and after
// 250 ms all if the first one has made no request.
//
//	up      ──Lost, Failed──► down    the first failure; the next attempt waits as that of a lone client
//	down    ──Failed────────► down    one back-off for all: they try one at a time, in the order of their calls
//	down    ──Heard─────────► up      those that wait go on, eight connecting and two listing at a time
//
// If a client gets a 502, 503 or 504 again and again, it may be its API alone that is away: after each of these
// failures one client that did not fail the last time tries at once.
//
// An attempt that hangs holds up the others for ten seconds; then one more may try. The package starts no goroutine.
// [Unanswered] and [Answered] classify errors. [Ceiling] bounds the waits of the back-off; a client without a Limiter
// uses it too.
package limiter

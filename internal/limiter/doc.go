// Package limiter coordinates the clients of one server within one process. While the link to the server is down, one
// client at a time tries to connect. It also bounds how many clients connect and list at a time.
//
// The clients share a [Limiter], made by New. Connect waits for a slot before a connection is made, and List before a
// list; Done gives a slot back. Lost and Failed report that the server did not answer, Heard that it did. A nil
// *Limiter never waits.
//
//	up      ──Lost, Failed──► down    the first failure; who connects waits as it would alone
//	down    ──Failed────────► down    one back-off for all: one at a time tries, and the slot goes round in the order of asking
//	down    ──Heard─────────► up      all that wait go on, eight connecting and two listing at a time
//
// An attempt that hangs holds up the others for ten seconds; then one more may try. The package starts no goroutine.
// [Unanswered] and [Answered] classify errors. [Ceiling] bounds the waits of the back-off; a client without a Limiter
// uses it too.
package limiter

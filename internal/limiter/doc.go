// Package limiter is what all that talk to one server from one process know together of the way there: that it is down,
// so that one of them tries it and not all, and that it is up again; and how many of them may connect and list at a
// time.
//
// Share a [Limiter], made by New, among them. Before a connection is made, Connect waits for a slot, and before a list
// List does; both are given back. Lost and Failed say that nothing came back, Heard that something did. A nil *Limiter
// knows nothing, and holds nobody up.
//
//	up      ──Lost, Failed──► down    the first failure; who connects waits as it would alone
//	down    ──Failed────────► down    one back-off for all: one at a time tries, and the slot goes round in the order of asking
//	down    ──Heard─────────► up      all that wait go on, eight connecting and two listing at a time
//
// An attempt that hangs holds up the others for ten seconds; then one more is let through. The package starts no
// goroutine. What an error says of the way, [Unanswered] and [Answered] tell; the terms of the back-off, [Ceiling], are
// those of who is alone, too.
package limiter

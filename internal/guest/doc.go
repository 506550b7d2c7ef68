// Package guest calls user functions that may ignore the end of their context, or panic. Neither keeps the caller from
// ending.
//
// Make a [Guest] for each function, and use its Call. The function runs on a goroutine of its own. Call waits for it,
// and abandons it only if it has not returned Guest.Wait after its context has ended. A panic is handled as client-go
// does: it is logged and the process ends, or, with utilruntime.ReallyCrash off, the call fails with [ErrPanicked].
//
// [Try] is for functions that take a moment, such as a key function: it needs no goroutine, and a panic is an error.
package guest

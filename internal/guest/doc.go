// Package guest calls functions of the user that may not return when their context ends, or panic. Neither keeps
// the caller from ending.
//
// Make a [Guest] for each function, and use its Call. The function runs on a goroutine of its own, which Call waits
// for, and leaves to itself only if it goes on for Guest.Wait after its time. A panic is handled as client-go does: it
// is logged and the process ends, or, with utilruntime.ReallyCrash off, the call fails with [ErrPanicked].
package guest

// Package guest calls user functions that may ignore the end of their context, or panic. The caller can end in either
// case.
//
// Make a [Guest] for each function, and use its Call. The function runs on its own goroutine. Call abandons a function
// that has not returned within Guest.Wait after its context has ended. A panic is handled as in client-go: it is logged
// and the process ends. With utilruntime.ReallyCrash off, the call fails with [ErrPanicked] instead.
//
// [Try] is for short functions, such as a key function. It needs no goroutine, and returns a panic as an error.
package guest

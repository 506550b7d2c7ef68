// Package pace is what a reflector learns of the link and the server while it asks: how many objects a page may have
// (Limit), how long an answer that cannot be smaller may take (Patience), how long a watch may be silent (Silence), and
// how long to wait after an error (Backoff).
//
// Each is a value that one goroutine owns. None makes a request, waits, or has a clock: it is told what came of a
// request and how long that took, and says what the next may have. Times are Go's; sizes are bytes as they are sent.
package pace

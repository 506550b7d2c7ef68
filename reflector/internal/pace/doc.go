// Package pace adapts a reflector's requests to the link and the server: how many objects a page may have (Limit), how
// long an answer that cannot be smaller may take (Patience), how long a watch may be silent (Silence), and how long to
// wait after an error (Backoff).
//
// Each is a value that one goroutine owns. None makes a request, waits, or has a clock: it is told the result of a
// request and how long that took, and returns the bounds of the next one. Sizes are bytes as they are sent.
package pace

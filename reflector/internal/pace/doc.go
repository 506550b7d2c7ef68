// Package pace adapts a reflector's requests to the link and the server: the number of objects in a page (Limit), the
// time-out of a request that cannot be made smaller (Patience), the permitted silence of a watch (Silence), and the
// wait after an error (Backoff).
//
// Values of these types are owned by one goroutine. They make no requests, do not wait, and have no clock. The caller
// passes in the result and duration of a request, and receives the bounds of the next one. Sizes are encoded bytes.
package pace

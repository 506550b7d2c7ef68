// Package connlimit bounds the open connections of an http.Server.
//
//	l := connlimit.New(connlimit.Options{Total: 10_400, Strangers: 1_000, StrangersPerAddress: 500, Idle: 1_000})
//	l.Attach(server)
//	…
//	connlimit.Authenticated(r.Context(), true) // in the handler
//
// A new connection is a stranger, whatever it sends, until the handler calls Authenticated. A stranger never locks out
// an authenticated client:
//
//   - Strangers are bounded in total and per remote address. One more closes the oldest of its address, or the oldest
//     of all. Authenticated connections have no bound per address, since many clients may share one behind NAT.
//   - At Options.Total a new connection closes the oldest stranger. Without strangers it closes the authenticated
//     connection that has been idle longest, and if all are in use the new connection itself is closed.
//
// A hijacked connection no longer counts. The package starts no goroutine. All functions may be called concurrently.
package connlimit

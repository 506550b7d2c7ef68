// Package connlimit bounds the open connections of an http.Server.
//
//	l := connlimit.New(connlimit.Options{
//		Total: 10_400, Unauthenticated: 1_000, UnauthenticatedPerAddress: 500, Idle: 1_000})
//	l.Attach(server)
//	…
//	connlimit.Authenticated(r.Context(), true) // in the handler
//
// A new connection is unauthenticated until the handler calls Authenticated. Unauthenticated connections never lock out
// authenticated clients:
//
//   - Unauthenticated connections are bounded in total and per remote address. At the bound per address one more closes
//     the oldest of its address. At the bound in total it closes the oldest of the address with the most of them. So
//     many connections from a few addresses never close the connection of a client at another address, which has one or
//     two until it is authenticated. Authenticated connections have no bound per address, since many clients may share
//     one behind NAT.
//   - At Options.Total a new connection closes an unauthenticated one in the same way. If there is none, it closes the
//     authenticated connection that has been idle longest, and if all are in use the new connection itself is closed.
//
// A hijacked connection counts until the handler returns. The package starts no goroutine. All functions may be called
// concurrently.
package connlimit

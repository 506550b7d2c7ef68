// Package history keeps how far a stream of events has come (Progress) and the newest objects that it has delivered
// (Newest, and ListNewest while a list is received). Check compares one of these with the server's, to find out whether
// the server has another history.
//
// Nothing here makes a request, and one goroutine owns each value. resourceVersions are compared by
// entry.ComparableRV's rules.
package history

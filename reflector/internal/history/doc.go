// Package history tracks the newest delivered resourceVersion (Progress) and the newest delivered objects (Newest, and
// ListNewest during a list). Check compares one of these objects with the server's state, to find out whether the
// server has another history.
//
// Nothing here makes a request, and one goroutine owns each value. resourceVersions are compared by the rules of
// entry.ComparableRV.
package history

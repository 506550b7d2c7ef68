// Package history is where a stream of events stands, and what is known of the objects that it has just passed: the
// resourceVersion (Progress), the newest objects (Newest, and ListNewest while a list is received), and what a look-up
// of one of these says about the server's history (Check).
//
// Nothing here makes a request, and one goroutine owns each value. resourceVersions are compared by
// entry.ComparableRV's rules: what cannot be compared never moves a Progress.
package history

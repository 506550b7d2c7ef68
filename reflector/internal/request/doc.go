// Package request makes the calls to a user's ListerWatcher and classifies their errors.
//
// Requests reports a call that does not end in time as overdue, waits for it until its context ends, and recovers
// panics. Expired, TooLarge, Denied, Refused and Cut classify errors by their remedy: a list, a list that rewrites, an
// administrator, other parameters, a smaller request. ErrPutOff means that the server's only answer was to retry later.
package request

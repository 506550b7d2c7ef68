// Package request makes the calls to a user's ListerWatcher and classifies their errors.
//
// A call ends in time, or is reported as overdue and waited for until its context ends; it never panics (Requests).
// Expired, TooLarge, Denied, Refused and Cut classify errors by their remedy: a list, a list that rewrites, an
// administrator, other parameters, a smaller request. ErrPutOff means that the server's only answer was to retry later.
package request

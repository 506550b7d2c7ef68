// Package request makes the calls to a user's ListerWatcher, and says what their answers mean.
//
// A call ends in time, or is reported as overdue and waited for as long as its context lasts; it never panics
// (Requests). Expired, TooLarge, Denied, Refused and Cut sort the errors, by what helps against them: a list, time, an
// administrator, other parameters, a smaller request. ErrPutOff is a server that only says "later". Gather reads a
// watch's events in pages.
package request

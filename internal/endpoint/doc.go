// Package endpoint serves the health and the metrics of a larder sync over HTTP.
//
// Call New, then Start with a listener, and Close. Start starts a goroutine. Close gives running answers two seconds to
// finish, then closes their connections, and waits for all goroutines of the server. Close may be called without Start.
//
//	/healthz  200 ok while the process answers
//	/readyz   200 if every check of Options.Ready passes, otherwise 503; with a line for each
//	          check: [+]pods ok, [-]nodes waiting for the first list
//	/metrics  Options.Metrics, such as the handler of Metrics, for Prometheus
//
// Only GET is answered. A request may take ten seconds. At most 100 connections are open; a further connection closes
// the oldest. A connection ends after one answer. Answers contain names of resources, namespaces and selectors, but no
// objects. Every client that can connect can read them, so the caller should listen on loopback by default. On another
// address the caller should serve metrics only if no authenticated port serves them.
package endpoint

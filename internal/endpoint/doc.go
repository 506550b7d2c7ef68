// Package endpoint serves the health and the metrics of a larder sync over HTTP.
//
// Call New, then Start with a listener, and Close. Start serves on a goroutine of its own. Close gives running answers
// two seconds to finish, then closes their connections, and waits for all goroutines of the server. Close may be called
// without Start.
//
//	/healthz  200 ok while the process answers
//	/readyz   200 if every check of Options.Ready passes, otherwise 503; with a line for each
//	          check: [+]pods ok, [-]nodes waiting for the first list
//	/metrics  Options.Metrics, such as the handler of Metrics, for Prometheus
//
// Only GET is answered. Requests have ten seconds. At most 100 connections are open, and each ends with its answer; one
// more closes the oldest. Answers contain no objects, but names of resources, namespaces and selectors, and every
// client that can connect can read them. So the caller listens on loopback unless configured otherwise. On another
// address it serves metrics only if no authenticated port serves them.
package endpoint

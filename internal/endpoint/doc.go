// Package endpoint serves the health and the metrics of a larder sync over HTTP.
//
// Call New, then Start with a listener, and Close. Start serves on a goroutine of its own; Close lets answers that are
// under way finish for two seconds, breaks them off after that, and waits until nothing of the server runs. Close
// without Start is fine.
//
//	/healthz  200 ok while the process answers
//	/readyz   200 if every check of Options.Ready is well, else 503; a line each: [+]pods ok, [-]nodes waiting for the first list
//	/metrics  Options.Metrics, such as what Metrics returns, for Prometheus
//
// Only GET is answered. Requests have ten seconds. At most 100 connections are open, and each ends with its answer; one
// more closes the oldest. There is no object in what is answered, but names of resources, namespaces and selectors;
// still whoever can connect can read it, so the caller listens on loopback unless told otherwise, and then gives
// metrics only if there is no other place for them.
package endpoint

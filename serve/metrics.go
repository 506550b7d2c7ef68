package serve

// isMetrics reports whether Options.Metrics answers the request, also with Options.Forward. Prometheus scrapes the API
// server's metrics at the API server.
func (q *request) isMetrics() bool {
	return q.Handler.options.Metrics != nil && q.r.URL.Path == "/metrics"
}

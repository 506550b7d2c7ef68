package serve

// isMetrics reports whether the request is for /metrics and Options.Metrics is set. This request is not forwarded, even
// with Options.Forward: Prometheus scrapes the API server's metrics at the API server itself.
func (q *request) isMetrics() bool {
	return q.Handler.options.Metrics != nil && q.r.URL.Path == "/metrics"
}

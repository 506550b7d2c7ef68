package serve

// isMetrics reports whether Options.Metrics answers the request. With Options.Forward too: who scrapes this address
// wants to know of Larder, and the API server's metrics are at the API server.
func (q *request) isMetrics() bool {
	return q.Handler.options.Metrics != nil && q.r.URL.Path == "/metrics"
}

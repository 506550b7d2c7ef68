package mirror

import (
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/larder-dev/larder/internal/endpoint"
)

// newMetrics returns what answers /metrics.
func (sv *service) newMetrics() http.Handler {
	all := []prometheus.Collector{sv.metrics}
	if sv.maker != nil {
		all = append(all, sv.maker.metrics.all()...)
	}
	return endpoint.Metrics(all...)
}

// plainMetrics returns what answers /metrics where health is served. Whoever can connect may ask there: so if objects
// are served, where it is known who asks, others than this machine are sent there.
func (sv *service) plainMetrics() http.Handler {
	if sv.metricsURL() == "" {
		return sv.scraped()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "metrics are at the address of --serve, for those who may get the path /metrics", http.StatusNotFound)
	})
}

// metricsURL is where metrics are if they are not where health is.
func (sv *service) metricsURL() string {
	if sv.port == nil || sv.listener == nil {
		return ""
	}
	if a, ok := sv.listener.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		return ""
	}
	return sv.port.URL + "/metrics"
}

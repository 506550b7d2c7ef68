package mirror

import (
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/larder-dev/larder/internal/endpoint"
	"github.com/larder-dev/larder/serve"
)

func (sv *service) newMetrics() http.Handler {
	all := []prometheus.Collector{sv.metrics}
	if sv.maker != nil {
		all = append(all, sv.maker.metrics.all()...)
	}
	if sv.port != nil {
		all = append(all, memoryMetrics(sv.port.Memory)...)
	}
	return endpoint.Metrics(all...)
}

func memoryMetrics(m *serve.Memory) []prometheus.Collector {
	gauge := func(name, help string, value func(serve.MemoryUsage) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value(m.Usage())) })
	}
	return []prometheus.Collector{
		gauge("larder_serve_memory_bytes", "Budget of memory for answers, as --serve-memory sets it.",
			func(u serve.MemoryUsage) int64 { return u.Size }),
		gauge("larder_serve_memory_used_bytes", "Memory of that budget that answers hold.",
			func(u serve.MemoryUsage) int64 { return u.Used }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "larder_serve_memory_refused_total",
			Help: "Requests that were refused with 429 since that budget, or their user's half of it, was spent."},
			func() float64 { return float64(m.Usage().Refused) }),
	}
}

// plainMetrics returns the handler of /metrics on the health listener, which does not authenticate clients. If the sync
// also serves objects, clients on other machines get an error that refers to the authenticated port.
func (sv *service) plainMetrics() http.Handler {
	if sv.metricsURL() == "" {
		return sv.scraped()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "metrics are at the address of --serve, for those who may get the path /metrics", http.StatusNotFound)
	})
}

// metricsURL returns the URL at which the authenticated port serves metrics; "" if the health listener serves them.
func (sv *service) metricsURL() string {
	if sv.port == nil || sv.listener == nil {
		return ""
	}
	if a, ok := sv.listener.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		return ""
	}
	return sv.port.URL + "/metrics"
}

package endpoint

import (
	"github.com/prometheus/client_golang/prometheus"
)

// reloads counts how often the configuration was read again.
type reloads struct {
	total *prometheus.CounterVec
	last  prometheus.Gauge
}

func newReloads() *reloads {
	r := &reloads{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "larder_config_reloads_total", Help: "Times that the configuration was read again.",
		}, []string{"result"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "larder_config_last_reload_successful",
			Help: "1 if the configuration that was read last counts, 0 if an older one goes on.",
		}),
	}
	r.total.WithLabelValues("applied")
	r.total.WithLabelValues("refused")
	r.last.Set(1)
	return r
}

func (r *reloads) note(ok bool) {
	if ok {
		r.total.WithLabelValues("applied").Inc()
		r.last.Set(1)
		return
	}
	r.total.WithLabelValues("refused").Inc()
	r.last.Set(0)
}

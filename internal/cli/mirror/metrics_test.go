package mirror

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/larder-dev/larder/internal/cli/serving"
	"github.com/larder-dev/larder/metrics"
	"github.com/larder-dev/larder/serve"
)

// at is a fake listener. It has an address on which a test must not listen.
type at struct {
	net.Listener
	ip net.IP
}

func (a at) Addr() net.Addr { return &net.TCPAddr{IP: a.ip, Port: 9470} }

// TestMetricsAddress checks that the health listener serves metrics on loopback, and on other addresses only if no
// objects are served. Otherwise it refers to the authenticated port.
func TestMetricsAddress(t *testing.T) {
	const served = "https://10.0.0.1:6444/metrics"
	port := &serving.Port{URL: "https://10.0.0.1:6444", Memory: serve.NewMemory(0)}
	for name, tt := range map[string]struct {
		listen net.IP
		port   *serving.Port
		plain  bool
		url    string
	}{
		"health alone":                   {net.IPv4zero, nil, true, ""},
		"on loopback":                    {net.IPv4(127, 0, 0, 1), port, true, ""},
		"on loopback, IPv6":              {net.IPv6loopback, port, true, ""},
		"at every address, with objects": {net.IPv4zero, port, false, served},
		"every address, IPv6":            {net.IPv6unspecified, port, false, served},
		"at one address, with objects":   {net.IPv4(10, 0, 0, 1), port, false, served},
	} {
		sv := &service{metrics: metrics.New(), listener: at{ip: tt.listen}, port: tt.port,
			maker: &maker{metrics: newMakerMetrics()}}
		sv.scraped = sv.newMetrics
		answer := httptest.NewRecorder()
		sv.plainMetrics().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if got := answer.Code == http.StatusOK; got != tt.plain || sv.metricsURL() != tt.url {
			t.Errorf("%s: %d, %q", name, answer.Code, sv.metricsURL())
		}
		if has := strings.Contains(answer.Body.String(), "larder_snapshots_kept"); has != tt.plain {
			t.Errorf("%s: %s", name, answer.Body)
		}
	}
}

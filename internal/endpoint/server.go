package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/larder-dev/larder/internal/connlimit"
)

const (
	// timeout limits the time to read a request, and the time to write its answer.
	timeout      = 10 * time.Second
	drainTimeout = 2 * time.Second
	maxHeader    = 16 << 10
	// maxConnections is the maximum number of open connections. A further connection closes the oldest, so that a health
	// probe is always answered.
	maxConnections = 100
)

// Check is one condition that must hold for a service to be ready.
type Check struct {
	Name    string
	Problem string
}

// Options say which checks and metrics a Server serves.
type Options struct {
	// Ready returns the checks for /readyz. It is called for each request, concurrently, and must not block. Without
	// Ready, /readyz always answers 200.
	Ready func() []Check
	// Metrics is the handler of /metrics. Without Metrics, /metrics is not found.
	Metrics http.Handler
}

// Server serves health and metrics over HTTP. Its methods may be called concurrently, except Start and Close.
type Server struct {
	o        Options
	http     *http.Server
	serving  sync.WaitGroup
	handlers sync.WaitGroup
}

// New returns a Server of health and metrics endpoints. It starts nothing.
func New(o Options) *Server {
	s := &Server{o: o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	s.http = &http.Server{
		Handler: s.track(mux), ReadTimeout: timeout, ReadHeaderTimeout: timeout, WriteTimeout: 2 * timeout,
		MaxHeaderBytes: maxHeader,
	}
	s.http.SetKeepAlivesEnabled(false)
	connlimit.New(connlimit.Options{Total: maxConnections}).Attach(s.http)
	return s
}

// Start serves the listener l until Close, which closes l.
func (s *Server) Start(l net.Listener) {
	s.serving.Go(func() { _ = s.http.Serve(l) })
}

// Close waits up to two seconds for running answers, and closes their connections. It returns when all goroutines of
// the server have ended.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.serving.Wait()
	s.handlers.Wait()
	return err
}

// track counts the running handlers, so that Server.Close can wait for them: Close of an http.Server does not wait.
func (s *Server) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	status := http.StatusOK
	var lines strings.Builder
	if s.o.Ready != nil {
		for _, c := range s.o.Ready() {
			if c.Problem == "" {
				fmt.Fprintf(&lines, "[+]%s ok\n", c.Name)
				continue
			}
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&lines, "[-]%s %s\n", c.Name, c.Problem)
		}
	}
	verdict := "ready\n"
	if status != http.StatusOK {
		verdict = "not ready\n"
	}
	answer(w, status, lines.String()+verdict)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // a write error means that the client has closed the connection
}

// maxGathers is the maximum number of concurrent scrapes. A further scrape gets 503.
const maxGathers = 4

// Metrics returns the HTTP handler that Prometheus scrapes. It returns metrics of the collectors, of the Go runtime and
// of the process.
func Metrics(all ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(all...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxGathers,
	})
}

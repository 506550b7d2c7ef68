package source

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// readHeaderTimeout bounds how long a client may take to ask.
	readHeaderTimeout = 10 * time.Second
	// drainTimeout is how long Close lets answers that are under way finish.
	drainTimeout = 2 * time.Second
	// flushEvery is how many objects go out at a time.
	flushEvery = 64
)

// Server answers the reading commands for the process that holds the store.
type Server struct {
	source Source
	sync   Sync
	http   *http.Server
	cancel context.CancelFunc
	// ending ends with Close, before cancel is called: watches, which never end by themselves, end then.
	ending context.Context
	end    context.CancelFunc
	// beatEvery is how long a watch says nothing at most.
	beatEvery time.Duration
	// serving is done when Serve has returned, handlers when no request is being answered.
	serving  sync.WaitGroup
	handlers sync.WaitGroup
}

// NewServer returns a server of src, which must outlive it; sync describes this process. It starts nothing.
func NewServer(src Source, sync Sync) *Server {
	s := &Server{source: src, sync: sync, beatEvery: beatEvery}
	s.ending, s.end = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathPing, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.sync) })
	mux.HandleFunc("GET "+pathStatus, s.status)
	mux.HandleFunc("GET "+pathCheck, s.check)
	mux.HandleFunc("GET "+pathObjects, s.objects)
	mux.HandleFunc("GET "+pathWatch, s.watch)
	mux.HandleFunc("POST "+pathCompact, s.compact)
	mux.HandleFunc("POST "+pathAudit, s.audit)
	mux.HandleFunc("POST "+pathRekey, s.rekey)
	mux.HandleFunc("POST "+pathSnapshot, s.snapshot)
	s.http = &http.Server{Handler: s.track(mux), ReadHeaderTimeout: readHeaderTimeout}
	return s
}

// Start serves l, which it owns from now on, on a goroutine of its own until Close.
func (s *Server) Start(l net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	s.serving.Go(func() { _ = s.http.Serve(l) })
}

// Close stops listening, ends watches, lets answers under way finish for two seconds, breaks them
// off after that, and waits until nothing of the server runs. The source is not closed.
func (s *Server) Close() error {
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if s.cancel != nil {
		s.cancel()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.serving.Wait()
	s.handlers.Wait()
	return err
}

// track counts requests, since Close of an http.Server does not wait for handlers.
func (s *Server) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	status, err := s.source.Status(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	status.Sync = &s.sync
	writeJSON(w, status)
}

func (s *Server) check(w http.ResponseWriter, r *http.Request) {
	report, err := s.source.Check(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, report)
}

func (s *Server) compact(w http.ResponseWriter, r *http.Request) {
	done, err := s.source.Compact(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, done)
}

// objects streams. Once the first line has been written an error can only be
// told in the stream, so nothing is written before the first object is there.
func (s *Server) objects(w http.ResponseWriter, r *http.Request) {
	enc := json.NewEncoder(w)
	sent := 0
	err := s.source.Objects(r.Context(), queryOf(r.URL.Query()), func(u *unstructured.Unstructured) error {
		raw, err := json.Marshal(u.Object)
		if err != nil {
			return err
		}
		if err := enc.Encode(line{Object: raw}); err != nil {
			return err
		}
		if sent++; sent%flushEvery == 0 {
			return http.NewResponseController(w).Flush()
		}
		return nil
	})
	var unreadable *UnreadableError
	switch {
	case err == nil:
		_ = enc.Encode(line{End: &sent})
	case errors.As(err, &unreadable):
		_ = enc.Encode(line{Unreadable: unreadable})
		_ = enc.Encode(line{End: &sent})
	case sent == 0:
		writeError(w, err)
	default:
		_ = enc.Encode(line{Error: err.Error()})
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client has gone; it will notice
}

func writeError(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(err))
	_ = json.NewEncoder(w).Encode(newErrorBody(err))
}

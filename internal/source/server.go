package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

const (
	// readHeaderTimeout bounds how long a client may take to ask.
	readHeaderTimeout = 10 * time.Second
	// drainTimeout is how long Close lets answers that are under way finish.
	drainTimeout = 2 * time.Second
	// beatEvery is how long a watch says nothing at most.
	beatEvery = 10 * time.Second
)

// Holder is a process that has a store open for writing, as a Server asks it.
type Holder interface {
	Source
	Watcher
	Logger
	// Compact writes the file anew without its free pages.
	Compact(ctx context.Context) (store.Compacted, error)
	// Rekey writes the file anew, with all that is to be sealed under the current key; see File.Rekey.
	Rekey(ctx context.Context, key string) (store.Compacted, error)
	// Audit compares every collection with the server, and repairs what differs.
	Audit(ctx context.Context) ([]Audited, error)
	// Save writes a snapshot of what is stored at one moment.
	Save(ctx context.Context, w io.Writer, r SaveRequest) error
}

// Server answers the commands for the process that holds the store.
type Server struct {
	holder Holder
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

// NewServer returns a server of h, which must outlive it; sync describes this process. It starts nothing.
func NewServer(h Holder, sync Sync) *Server {
	s := &Server{holder: h, sync: sync, beatEvery: beatEvery}
	s.ending, s.end = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	answer(mux, "GET "+pathPing, func(*http.Request) (Sync, error) { return sync, nil })
	answer(mux, "GET "+pathStatus, func(r *http.Request) (Status, error) {
		status, err := h.Status(r.Context())
		status.Sync = &sync
		return status, err
	})
	answer(mux, "GET "+pathCheck, func(r *http.Request) (store.Report, error) { return h.Check(r.Context()) })
	answer(mux, "POST "+pathCompact, func(r *http.Request) (store.Compacted, error) { return h.Compact(r.Context()) })
	answer(mux, "POST "+pathAudit, func(r *http.Request) ([]Audited, error) { return h.Audit(r.Context()) })
	answer(mux, "POST "+pathRekey, func(r *http.Request) (store.Compacted, error) {
		return h.Rekey(r.Context(), r.URL.Query().Get(paramKey))
	})
	mux.HandleFunc("GET "+pathEntries, s.entries)
	mux.HandleFunc("GET "+pathWatch, s.watch)
	mux.HandleFunc("GET "+pathLog, s.log)
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
// off after that, and waits until nothing of the server runs. The holder is not closed.
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

// answer has the requests of a pattern answered in JSON.
func answer[T any](mux *http.ServeMux, pattern string, ask func(*http.Request) (T, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var body any
		body, err := ask(r)
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			body = newErrorBody(err)
			w.WriteHeader(http.StatusInternalServerError)
		}
		_ = json.NewEncoder(w).Encode(body) // a client that has gone notices it
	})
}

func (s *Server) entries(w http.ResponseWriter, r *http.Request) {
	st := newStream(w)
	q, err := queryOf(r.URL.Query())
	if err != nil {
		st.end(ending{}, err)
		return
	}
	end := ending{}
	err = s.holder.Entries(r.Context(), q.Query, func(e entry.Entry) error {
		end.Entries++
		return st.send(frame{Entry: &e}, false)
	})
	if errors.As(err, &end.Unreadable) {
		err = nil
	}
	st.end(end, err)
}

// watch streams until the client goes, the watch ends, or the server is closed.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	st := newStream(w)
	q, err := queryOf(r.URL.Query())
	if err != nil {
		st.end(ending{}, err)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.ending, func() { cancel(ErrStopping) })()
	beats := time.NewTicker(s.beatEvery)
	defer beats.Stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-beats.C:
				if st.send(frame{Beat: true}, true) != nil {
					cancel(nil) // the client has gone
				}
			}
		}
	})
	err = s.holder.Watch(ctx, q, func(e Event) error { return st.send(frame{Event: &e}, e.Type == Bookmark) })
	cancel(nil)
	wg.Wait()
	if err == nil {
		err = ErrStopping
	}
	st.end(ending{}, err)
}

func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	st := newStream(w)
	var req SaveRequest
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&req)
	if err != nil {
		err = fmt.Errorf("the request cannot be read: %w", err)
	} else {
		req.Larder = s.sync.Version
		err = s.holder.Save(r.Context(), st, req)
	}
	st.end(ending{}, err)
}

package source

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
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
	// readHeaderTimeout bounds how long a client may take to ask, and idleTimeout how long its connection is kept.
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = time.Minute
	// drainTimeout is how long Close lets answers that are under way finish.
	drainTimeout = 2 * time.Second
	// streamBuffer is how many bytes of a stream are written and read at a time.
	streamBuffer = 64 << 10
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
	http   *http.Server
	cancel context.CancelFunc
	// ending ends with Close, before cancel is called: watches, which never end by themselves, end then.
	ending context.Context
	end    context.CancelFunc
	// serving is done when Serve has returned, handlers when no request is being answered.
	serving  sync.WaitGroup
	handlers sync.WaitGroup
}

// NewServer returns a server of h, which must outlive it; sync describes this process. It starts nothing.
func NewServer(h Holder, sync Sync) *Server {
	s := &Server{}
	s.ending, s.end = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	answer(mux, "GET "+pathSync, func(context.Context, nothing) (Sync, error) { return sync, nil })
	answer(mux, "GET "+pathStatus, func(ctx context.Context, _ nothing) (Status, error) {
		status, err := h.Status(ctx)
		status.Sync = &sync
		return status, err
	})
	answer(mux, "GET "+pathCheck, func(ctx context.Context, _ nothing) (store.Report, error) { return h.Check(ctx) })
	answer(mux, "POST "+pathCompact, func(ctx context.Context, _ nothing) (store.Compacted, error) {
		return h.Compact(ctx)
	})
	answer(mux, "POST "+pathAudit, func(ctx context.Context, _ nothing) ([]Audited, error) { return h.Audit(ctx) })
	answer(mux, "POST "+pathRekey, h.Rekey)
	stream(mux, "GET "+pathRecords, func(ctx context.Context, q Query, out *output) error {
		return h.Entries(ctx, q, func(e entry.Entry) error { return out.send(e, false) })
	})
	stream(mux, "GET "+pathChanges, func(ctx context.Context, q LogQuery, out *output) error {
		from, err := h.Log(ctx, q, func(l Logged) error { return out.send(l, false) })
		return errors.Join(err, out.send(Logged{Type: Bookmark, Time: from}, false))
	})
	stream(mux, "GET "+pathWatch, func(ctx context.Context, q WatchQuery, out *output) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(s.ending, func() { cancel(ErrStopping) })()
		return cmp.Or(h.Watch(ctx, q, func(e Event) error { return out.send(e, e.Type == Bookmark) }), ErrStopping)
	})
	stream(mux, "POST "+pathSnapshot, func(ctx context.Context, r SaveRequest, out *output) error {
		r.Larder = sync.Version
		return h.Save(ctx, out.buffer, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusNotFound, unknownPath(sync, r))
	})
	s.http = &http.Server{Handler: s.track(mux), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout}
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

// nothing is what a request asks for whose path says it all.
type nothing struct{}

// queryOf returns what a request asks for.
func queryOf[Q any](r *http.Request) (q Q, err error) {
	text := r.URL.Query().Get(paramQuery)
	if text == "" {
		return q, nil
	}
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		return q, fmt.Errorf("the request cannot be read: %w", err)
	}
	return q, nil
}

// answer has the requests of a pattern answered in JSON.
func answer[Q, T any](mux *http.ServeMux, pattern string, ask func(context.Context, Q) (T, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q, err := queryOf[Q](r)
		var value any
		if err == nil {
			value, err = ask(r.Context(), q)
		}
		if err != nil {
			writeJSON(w, http.StatusInternalServerError, newFailure(err))
			return
		}
		writeJSON(w, http.StatusOK, value)
	})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // a client that has gone notices it
}

// stream has the requests of a pattern answered with what write sends. How that has ended is in the trailer.
func stream[Q any](mux *http.ServeMux, pattern string, write func(context.Context, Q, *output) error) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", trailerEnd)
		out := newOutput(w)
		q, err := queryOf[Q](r)
		if err == nil {
			err = write(r.Context(), q, out)
		}
		if out.buffer.Flush() != nil {
			return // the client has gone
		}
		end, err := json.Marshal(newFailure(err))
		if err == nil {
			w.Header().Set(trailerEnd, string(end))
		}
	})
}

// output is the body of a stream.
type output struct {
	control *http.ResponseController
	buffer  *bufio.Writer
	enc     *gob.Encoder // writes to buffer
}

func newOutput(w http.ResponseWriter) *output {
	buffer := bufio.NewWriterSize(w, streamBuffer)
	return &output{http.NewResponseController(w), buffer, gob.NewEncoder(buffer)}
}

// send writes a value, in gob. The client has it after a flush at the latest.
func (o *output) send(value any, flush bool) error {
	if err := o.enc.Encode(value); err != nil || !flush {
		return err
	}
	if err := o.buffer.Flush(); err != nil {
		return err
	}
	return o.control.Flush()
}

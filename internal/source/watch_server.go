package source

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

// beatEvery is how long a watch says nothing at most.
const beatEvery = 10 * time.Second

var errUnwatchable = errors.New("what holds the store cannot tell of its changes")

// watch streams until the client goes, the watch ends, or the server is closed.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	watcher, ok := s.source.(Watcher)
	if !ok {
		writeError(w, errUnwatchable)
		return
	}
	q, err := watchQueryOf(r.URL.Query())
	if err != nil {
		writeError(w, err)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.ending, func() { cancel(ErrStopping) })()
	st := newStream(w)
	beats := time.NewTicker(s.beatEvery)
	defer beats.Stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-beats.C:
				if st.beat() != nil {
					cancel(nil) // the client has gone
				}
			}
		}
	})
	err = watcher.Watch(ctx, q, st.event)
	cancel(nil)
	wg.Wait()
	st.end(err)
}

// stream is the answer to one watch. Its methods may be called concurrently.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController

	mu    sync.Mutex
	enc   *json.Encoder // guarded by mu, as w is
	begun bool          // guarded by mu
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, control: http.NewResponseController(w), enc: json.NewEncoder(w)}
}

// event sends e. What has been sent is at the client after a Bookmark at the latest.
func (s *stream) event(e Event) error {
	wire, err := newWireEvent(e)
	if err != nil {
		return err
	}
	return s.send(watchLine{Event: wire}, e.Type == Bookmark)
}

func (s *stream) beat() error { return s.send(watchLine{Beat: true}, true) }

func (s *stream) send(l watchLine, flush bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	err := s.enc.Encode(l)
	if err == nil && flush {
		err = s.control.Flush()
	}
	return err
}

// end says why the watch has ended. A client that has gone does not hear it.
func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = ErrStopping
	}
	if !s.begun {
		writeError(s.w, err)
		return
	}
	body := newErrorBody(err)
	_ = s.enc.Encode(watchLine{Error: &body})
}

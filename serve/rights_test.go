package serve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
)

// switched is an authorizer whose answer a test sets.
type switched struct {
	mu       sync.Mutex
	no       bool
	selected bool // a yes is for watches with a selector only
	err      error
	asked    int
}

func (s *switched) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *switched) Authorize(_ context.Context, a access.Attributes) (access.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return access.Decision{Allowed: !s.no && (!s.selected || a.FieldSelector != nil)}, s.err
}

// TestWatchEndsWithTheRight checks that a watch is asked about again while it lasts, ends with 403 once the right is
// gone, and goes on while nobody can say (issue 37).
func TestWatchEndsWithTheRight(t *testing.T) {
	for _, query := range []string{"", "&fieldSelector=spec.nodeName%3Da"} {
		synctest.Test(t, func(t *testing.T) {
			rights := &switched{selected: query != ""}
			h, err := serve.New(serve.Store(smallStore(t)), serve.Options{Authorizer: rights})
			must(t, err)
			defer func() { must(t, h.Close()) }()
			w := &lines{header: http.Header{}, sent: make(chan string, 10)}
			target := "/api/v1/pods?watch=1&resourceVersion=7" + query
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
			must(t, err)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.ServeHTTP(w, r)
			}()
			time.Sleep(time.Minute)
			rights.set(func() { rights.err = errors.Join(errors.New("dial"), access.ErrUnreachable) })
			time.Sleep(time.Minute)
			rights.set(func() { rights.err = nil })
			time.Sleep(time.Minute)
			if len(w.sent) > 0 {
				t.Fatalf("an allowed watch was sent %q", <-w.sent)
			}
			rights.set(func() { rights.no, rights.asked = true, 0 })
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("the watch goes on without the right to it")
				cancel()
				<-ended
				return
			}
			line := <-w.sent
			if !strings.Contains(line, `"type":"ERROR"`) || !strings.Contains(line, `"code":403`) {
				t.Errorf("the watch ended with %q", line)
			}
			if rights.asked > 2 {
				t.Errorf("it was asked %d times until it ended", rights.asked)
			}
		})
	}
}

// lines is a http.ResponseWriter of a watch.
type lines struct {
	header http.Header
	sent   chan string
}

func (l *lines) Header() http.Header { return l.header }
func (l *lines) WriteHeader(int)     {}
func (l *lines) Flush()              {}

func (l *lines) Write(data []byte) (int, error) {
	s := bufio.NewScanner(strings.NewReader(string(data)))
	for s.Scan() {
		l.sent <- fmt.Sprint(s.Text())
	}
	return len(data), s.Err()
}

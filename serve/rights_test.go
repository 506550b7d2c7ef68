package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
)

type switched struct {
	mu       sync.Mutex
	no       bool
	selected bool
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

// TestWatchRightRevoked checks that a running watch ends with 403 once its user has lost the right, and continues while
// the authorizer fails (issue 37).
func TestWatchRightRevoked(t *testing.T) {
	for _, query := range []string{"", "&fieldSelector=spec.nodeName%3Da"} {
		synctest.Test(t, func(t *testing.T) {
			rights := &switched{selected: query != ""}
			h, err := serve.New(serve.Store(smallStore(t)), serve.Options{Authorizer: rights})
			must(t, err)
			defer func() { must(t, h.Close()) }()
			w, ended, cancel := startWatch(t, h, access.User{Username: "jane"}, query)
			defer cancel()
			time.Sleep(2 * time.Minute)
			rights.set(func() { rights.err = errors.Join(errors.New("dial"), access.ErrUnreachable) })
			time.Sleep(2 * time.Minute)
			rights.set(func() { rights.err = nil })
			time.Sleep(2 * time.Minute)
			if len(w.sent) > 0 {
				t.Fatalf("an allowed watch was sent %q", <-w.sent)
			}
			rights.set(func() { rights.no, rights.asked = true, 0 })
			select {
			case <-ended:
			case <-time.After(2 * time.Minute):
				t.Error("the watch goes on without the right to it")
				cancel()
				<-ended
				return
			}
			line := <-w.sent
			if !strings.Contains(line, `"type":"ERROR"`) || !strings.Contains(line, `"code":403`) {
				t.Errorf("the watch ended with %q", line)
			}
			if rights.asked != 1 {
				t.Errorf("it was asked %d times until it ended", rights.asked)
			}
		})
	}
}

// startWatch starts a watch of a user at smallStore's resourceVersion. ended is closed when the watch ends.
func startWatch(
	t *testing.T, h *serve.Handler, user access.User, query string,
) (w *lines, ended chan struct{}, cancel func()) {
	t.Helper()
	w, ended = &lines{header: http.Header{}, sent: make(chan string, 10)}, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	handler := access.NewHandler(h, access.HandlerOptions{Authenticator: as(user)})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods?watch=1&resourceVersion=7"+query, nil)
	must(t, err)
	go func() {
		defer close(ended)
		handler.ServeHTTP(w, r)
	}()
	return w, ended, cancel
}

type as access.User

func (u as) Authenticate(*http.Request) (access.User, bool, error) { return access.User(u), true, nil }

// agent returns the user of one pod's service-account token, as a TokenReview returns it.
func agent(pod string) access.User {
	return access.User{Username: "system:serviceaccount:monitoring:agent", UID: "1", Extra: map[string]extra{
		"authentication.kubernetes.io/pod-name":      {pod},
		"authentication.kubernetes.io/credential-id": {"JTI=" + pod},
		"example.com/tenant":                         {"a"},
	}}
}

type extra = authenticationv1.ExtraValue

type questions struct {
	mu     sync.Mutex
	answer func(access.Attributes) access.Decision
	asked  int
	differ map[string]bool
}

func (q *questions) Authorize(_ context.Context, a access.Attributes) (access.Decision, error) {
	text, err := json.Marshal(a)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked++
	q.differ[string(text)] = true
	return q.answer(a), err
}

func (q *questions) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked, q.differ = 0, map[string]bool{}
}

func (q *questions) counts() (asked, differ int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.asked, len(q.differ)
}

// TestWatchesShareQuestions checks that running watches of a service account's pods ask an authorizer one common
// question at most every 50 s, and do not repeat a question that was denied (issue 37).
func TestWatchesShareQuestions(t *testing.T) {
	for name, tt := range map[string]struct {
		query  string
		answer func(access.Attributes) access.Decision
		// differ is the expected number of distinct questions for three pods.
		differ int
	}{
		"all": {"", func(access.Attributes) access.Decision { return access.Decision{Allowed: true} }, 1},
		"selected": {"&fieldSelector=spec.nodeName%3Da", func(a access.Attributes) access.Decision {
			return access.Decision{Allowed: a.FieldSelector != nil}
		}, 1},
		"by the pod": {"", func(a access.Attributes) access.Decision {
			return access.Decision{Allowed: len(a.User.Extra) == 3}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rights := &questions{answer: tt.answer, differ: map[string]bool{}}
				h, err := serve.New(serve.Store(smallStore(t)), serve.Options{Authorizer: rights})
				must(t, err)
				for i := range 3 {
					_, ended, cancel := startWatch(t, h, agent(fmt.Sprint(i)), tt.query)
					defer func() {
						cancel()
						<-ended
					}()
				}
				defer func() { must(t, h.Close()) }()
				time.Sleep(2 * time.Minute) // within two minutes every watch asks the authorizer
				rights.reset()
				time.Sleep(500 * time.Second)
				asked, differ := rights.counts()
				if asked < 3*5 || asked > 3*10 || differ != tt.differ {
					t.Errorf("asked %d times, %d different questions", asked, differ)
				}
			})
		})
	}
}

// TestOutageEndsNoWatch checks that a watch that the API server has allowed continues through an outage, even if the
// rules for an outage deny it. These rules can end a watch that only they have allowed (issue 37).
func TestOutageEndsNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unreachable := errors.Join(errors.New("dial"), access.ErrUnreachable)
		upstream, offline := &switched{}, &switched{no: true}
		h, err := serve.New(serve.Store(smallStore(t)), serve.Options{
			Authorizer: access.FallbackAuthorizer(upstream, offline)})
		must(t, err)
		defer func() { must(t, h.Close()) }()
		start := func() (ended chan struct{}, cancel func()) {
			_, ended, cancel = startWatch(t, h, access.User{Username: "jane"}, "&fieldSelector=spec.nodeName%3Da")
			synctest.Wait()
			return ended, cancel
		}
		goesOn := func(ended chan struct{}, when string) {
			t.Helper()
			select {
			case <-ended:
				t.Fatalf("the watch ended %s", when)
			case <-time.After(5 * time.Minute):
			}
		}
		ends := func(ended chan struct{}, when string) {
			t.Helper()
			select {
			case <-ended:
			case <-time.After(2 * time.Minute):
				t.Errorf("the watch goes on %s", when)
			}
		}
		one, cancel := start()
		defer cancel()
		upstream.set(func() { upstream.err = unreachable })
		goesOn(one, "in an outage")
		offline.set(func() { offline.no = false })
		two, cancelTwo := start()
		defer cancelTwo()
		three, cancelThree := start()
		defer cancelThree()
		goesOn(two, "that the rules for an outage allow")
		offline.set(func() { offline.no = true })
		ends(two, "without the rule for an outage that allowed it")
		ends(three, "without the rule for an outage that allowed it")
		goesOn(one, "in an outage, after the rules for it have changed")

		offline.set(func() { offline.no = false })
		four, cancelFour := start()
		defer cancelFour()
		upstream.set(func() { upstream.err = nil })
		goesOn(four, "that the API server allows")
		upstream.set(func() { upstream.err = unreachable })
		offline.set(func() { offline.no = true })
		goesOn(four, "in an outage, since when the API server has allowed it")
		upstream.set(func() { upstream.err, upstream.no = nil, true })
		ends(one, "without the right")
		ends(four, "without the right")
	})
}

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

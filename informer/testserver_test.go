package informer_test

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

type TestServer struct{ *server }

func NewTestServer() TestServer { return TestServer{newServer()} }

func (s TestServer) Write(key, value string) { s.write(key, value) }

func (s TestServer) Delete(key string) { s.delete(key) }

// Compact makes the server forget past events, so that older watches get 410, and ends all watches.
func (s TestServer) Compact() { s.compact() }

func (s TestServer) Disconnect() { s.disconnect() }

// Silently calls fn. The changes that fn makes at the server cause no events, like changes that a restored backup
// lacks.
func (s TestServer) Silently(fn func()) {
	s.setSilent(true)
	defer s.setSilent(false)
	fn()
}

func (s TestServer) Bookmark() { s.bookmark() }

// AtPage calls fn once, before the next second or later page of a list.
func (s TestServer) AtPage(fn func()) { s.atPage = sync.OnceFunc(fn) }

func (s TestServer) Fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.send(watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: 500,
			Reason: metav1.StatusReasonInternalError}})
	}
}

// Lists returns the number of lists, without look-ups by name and probes of one object.
func (s TestServer) Lists() int {
	n, _ := s.requests()
	return n
}

func (s TestServer) State() []string { return s.state() }

func (s TestServer) SetFail(fn func(verb string, o metav1.ListOptions) error) { s.setFail(fn) }

// Describe returns key@resourceVersion=value of a pod.
func Describe(obj any) string { return describe(obj) }

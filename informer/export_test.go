package informer

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TestServer is the API server of pods that the tests have, for those that use exported names only.
type TestServer struct{ *server }

// NewTestServer returns a server without pods.
func NewTestServer() TestServer { return TestServer{newServer()} }

// Write creates or updates a pod; value is that of its label of the same name.
func (s TestServer) Write(key, value string) { s.write(key, value) }

// Delete removes a pod.
func (s TestServer) Delete(key string) { s.delete(key) }

// Compact forgets the history, and disconnects everybody.
func (s TestServer) Compact() { s.compact() }

// Disconnect ends all watches.
func (s TestServer) Disconnect() { s.disconnect() }

// Lists returns how many lists have been begun. Look-ups and probes are none.
func (s TestServer) Lists() int {
	n, _ := s.requests()
	return n
}

// State returns key@resourceVersion=value of each pod.
func (s TestServer) State() []string { return s.state() }

// SetFail has requests fail with what fn returns.
func (s TestServer) SetFail(fn func(verb string, o metav1.ListOptions) error) { s.setFail(fn) }

// Describe returns key@resourceVersion=value of a pod.
func Describe(obj any) string { return describe(obj) }

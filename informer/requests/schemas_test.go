package requests_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/informer/internal/shared"
	"github.com/larder-dev/larder/informer/requests"
)

// TestSchemasReadOnce checks that concurrent callers, and callers soon after them, share one request, and that each
// gets the hash of its own group-version.
func TestSchemasReadOnce(t *testing.T) {
	synctest.Test(t, testSchemasReadOnce)
}

func testSchemasReadOnce(t *testing.T) {
	var asked atomic.Int32
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		fmt.Fprintf(w,
			`{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=CORE%d"},"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=APPS"}}}`, n)
	})
	s := requests.NewSchemas(c)
	var wg sync.WaitGroup
	for i := range 20 {
		gv, want := schema.GroupVersion{Version: "v1"}, "CORE1"
		if i%2 == 0 {
			gv, want = schema.GroupVersion{Group: "apps", Version: "v1"}, "APPS"
		}
		wg.Go(func() {
			if hash, err := s.Hash(gv)(t.Context()); hash != want || err != nil {
				t.Errorf("%s: %q, %v; want %q", gv, hash, err, want)
			}
		})
	}
	wg.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	time.Sleep(5 * time.Minute)
	if hash, err := s.Hash(schema.GroupVersion{Version: "v1"})(t.Context()); hash != "CORE2" || err != nil {
		t.Errorf("later: %q, %v", hash, err)
	}
}

// TestSchemasReadSince checks that callers that demand a schema's hash read after their connection began share one
// request.
func TestSchemasReadSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		hash := requests.NewSchemas(clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=%d"}}}`, asked.Add(1))
		})).Hash(schema.GroupVersion{Version: "v1"})
		read := func(ctx context.Context, want string) {
			t.Helper()
			if got, err := hash(ctx); got != want || err != nil {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		}
		read(t.Context(), "1")
		time.Sleep(time.Second)
		connected := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				ctx, answer := shared.Ask(t.Context(), connected)
				read(ctx, "2")
				if answer.Read().Before(connected) {
					t.Errorf("read %s before the connection", connected.Sub(answer.Read()))
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		read(t.Context(), "2")
		ctx, answer := shared.Ask(t.Context(), time.Time{})
		if read(ctx, "2"); !answer.Read().Equal(connected) {
			t.Errorf("an answer of %s is said to be of %s", connected, answer.Read())
		}
	})
}

// TestSchemasRefused checks that all callers share the server's refusal, but not a connection error.
func TestSchemasRefused(t *testing.T) {
	var asked atomic.Int32
	status := atomic.Int32{}
	status.Store(http.StatusForbidden)
	c := testClient(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(int(status.Load()))
	})
	for _, tc := range []struct{ status, want int32 }{{http.StatusForbidden, 1}, {http.StatusInternalServerError, 2}} {
		status.Store(tc.status)
		asked.Store(0)
		s := requests.NewSchemas(c)
		for range 2 {
			if _, err := s.Hash(schema.GroupVersion{Version: "v1"})(t.Context()); err == nil {
				t.Error("no error")
			}
		}
		if n := asked.Load(); n != tc.want {
			t.Errorf("%d: %d requests, want %d", tc.status, n, tc.want)
		}
	}
}

// TestSchemasHang checks that a caller that waits for another caller's request returns when its own context ends.
func TestSchemasHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, hash := make(chan struct{}), make(chan error, 1)
		s := requests.NewSchemas(clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
			<-answer
			fmt.Fprint(w, `{"paths":{}}`)
		}))
		go func() {
			_, err := s.Hash(schema.GroupVersion{Version: "v1"})(t.Context())
			hash <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Hash(schema.GroupVersion{Version: "v1"})(ctx); err == nil || apierrors.IsForbidden(err) {
			t.Errorf("%v", err)
		}
		close(answer)
		if err := <-hash; err != nil {
			t.Errorf("the one that read: %v", err)
		}
	})
}

// clientOf returns a REST client whose requests fn answers without a connection, so that it works with synctest.
func clientOf(t *testing.T, fn http.HandlerFunc) rest.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "http://server"},
		&http.Client{Transport: answering(fn)})
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().RESTClient()
}

type answering http.HandlerFunc

func (fn answering) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	fn(w, r)
	return w.Result(), nil
}

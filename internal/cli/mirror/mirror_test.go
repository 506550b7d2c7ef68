package mirror

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/holder"
	"github.com/larder-dev/larder/store"
)

// mirrorUntil runs a mirror of pods over the file until it is live, hands it to look, and stops it.
func mirrorUntil(t *testing.T, server *fakeapi.Server, path string, look func(*mirror, *store.Store)) {
	t.Helper()
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	mb, err := newMember(t.Context(), st, planned{resource: clitest.Pods, identity: clitest.PodsOf("", "", ""),
		conn: mustConnect(t, server.Config())}, memberOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := newMirror(st)
	m.members = []*member{mb}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.run(ctx) }()
	if !cache.WaitForCacheSync(t.Context().Done(), mb.informer.HasSynced) {
		t.Error("it has not synced")
	}
	look(m, st)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What tells clusters and schemas apart is stored, and the guard against a rewound server reads identities by metadata:
// a page of all, or, if that is refused, those of the newest.
func TestMirrorIsGuarded(t *testing.T) {
	server := clitest.StartServer(t)
	clitest.CreatePod(t, server, "a", "x", nil)
	path := filepath.Join(t.TempDir(), "s")
	mirrorUntil(t, server, path, func(_ *mirror, st *store.Store) {
		infos, err := st.Collections(t.Context())
		if err != nil || len(infos) != 1 {
			t.Fatal(infos, err)
		}
		attributes := infos[0].Attributes
		uid := ""
		for _, ns := range server.List(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}) {
			if ns.GetName() == "kube-system" {
				uid = string(ns.GetUID())
			}
		}
		if attributes.ClusterID != uid || uid == "" || attributes.OpenAPI == "" {
			t.Errorf("attributes %+v, kube-system is %q", attributes, uid)
		}
	})
	for want := range 2 { // look-ups; one by list counts as a probe, too
		server.ResetCounts()
		if want > 0 {
			server.InjectFault(fakeapi.Fault{Verb: "compare", Status: http.StatusForbidden})
		}
		mirrorUntil(t, server, path, func(m *mirror, _ *store.Store) {
			st := m.members[0].informer.Status().Reflector
			if st.Lists != 0 || st.Resumes == 0 || st.Lookups != want || st.Probes != 2*want || st.NoLookups != "" {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A sync whose store has gone away must end with an error, not stay up with nothing to do.
func TestMirrorEndsWithItsInformers(t *testing.T) {
	server := clitest.StartServer(t)
	st, err := store.Open(filepath.Join(t.TempDir(), "s"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := newMirror(st)
	for _, r := range []input.Resource{clitest.Pods, clitest.Deployments} {
		mb, err := newMember(t.Context(), st, planned{resource: r, identity: entry.Identity{
			GroupVersionResource: r.GroupVersionResource, Representation: entry.Unstructured,
		}, conn: mustConnect(t, server.Config())}, memberOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.members = append(m.members, mb)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.run(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("got %v", err)
	}
}

var silent = logr.Discard()

func TestSyncWaitsForAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	create, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := create.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := store.Open(path, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = openForSync(context.Background(), path, -time.Second, store.Options{Logger: &silent})
	clitest.WantError(t, err, "s is held by a process, which reads it", "wait until it is done or stop it")
	waiting := make(chan struct{})
	logger := logr.New(&signalSink{LogSink: logr.Discard().GetSink(), said: waiting})
	go func() {
		<-waiting
		_ = reader.Close()
	}()
	st, err := openForSync(context.Background(), path, time.Minute, store.Options{Logger: &logger})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

func TestSyncNamesWhoHoldsTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	writer, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	_, err = openForSync(context.Background(), path, -time.Second, store.Options{Logger: &silent})
	clitest.WantError(t, err, "s is held by a process, which writes it", "or mirror into another file")

	agents := []holder.Holder{{PID: 17, Name: "agent"}, {PID: 4, Name: "larder"}}
	if got, want := input.HoldingAs(true, agents),
		"process 17 (agent) and process 4 (larder), which read it"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// signalSink closes said at the first message.
type signalSink struct {
	logr.LogSink
	said chan struct{}
}

func (s *signalSink) Init(logr.RuntimeInfo) {}

func (s *signalSink) Enabled(int) bool { return true }

func (s *signalSink) Error(error, string, ...any) {}

func (s *signalSink) WithValues(...any) logr.LogSink { return s }

func (s *signalSink) WithName(string) logr.LogSink { return s }

func (s *signalSink) Info(int, string, ...any) {
	select {
	case <-s.said:
	default:
		close(s.said)
	}
}

func mustConnect(t *testing.T, config *rest.Config) *cluster.Connection {
	t.Helper()
	c, err := cluster.Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

package mirror

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
)

// mirrorUntil mirrors pods into the file at path, calls look once the pods are live, and then stops the mirror.
func mirrorUntil(t *testing.T, server *fakeapi.Server, path string, look func(*mirror, *store.Store)) {
	t.Helper()
	mirrorWith(t, server, path, store.Options{}, look)
}

func mirrorWith(
	t *testing.T, server *fakeapi.Server, path string, o store.Options, look func(*mirror, *store.Store),
) {
	t.Helper()
	st, err := store.Open(path, o)
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

// TestMirrorIsGuarded checks that the attributes that identify the cluster and the schema are stored. It also checks
// that the check for a rewound server, such as a server restored from a backup, reads metadata only: one chunk of all
// objects, or, if the server refuses that, the newest objects.
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
	for want := range 2 { // want is the number of look-ups so far; the server counts each look-up as a probe, too
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

// TestMirrorEndsWithItsInformers checks that a sync whose store was closed ends with an error instead of running on.
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

func TestSyncNamesHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	writer, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	_, err = openForSync(context.Background(), path, -time.Second, store.Options{Logger: &silent})
	clitest.WantError(t, err, "s is held by a process, which writes it", "or mirror into another file")

	agents := []base.Holder{{PID: 17, Name: "agent"}, {PID: 4, Name: "larder"}}
	if got, want := input.HoldingAs(true, agents),
		"process 17 (agent) and process 4 (larder), which read it"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

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
	c, err := mustServer(t, config).Connect()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustServer(t *testing.T, config *rest.Config) *cluster.Server {
	t.Helper()
	s, err := cluster.NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestStatusMatchesReads checks that a status has the resourceVersion of the objects that are read after it, even if
// the last changes are not committed yet.
func TestStatusMatchesReads(t *testing.T) {
	server := clitest.StartServer(t)
	clitest.CreatePod(t, server, "a", "x", nil)
	o := store.Options{Logger: &silent, CommitInterval: time.Hour}
	mirrorWith(t, server, filepath.Join(t.TempDir(), "s"), o, func(m *mirror, _ *store.Store) {
		clitest.CreatePod(t, server, "a", "y", nil)
		for m.members[0].informer.Status().Objects != 2 {
			time.Sleep(10 * time.Millisecond)
		}
		status, err := m.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := status.Collections[0].ResourceVersion, server.RV(); got != want {
			t.Errorf("the status has the resourceVersion %s, and the objects are of %s", got, want)
		}
	})
}

// TestUnwatchedIsNoted checks the note about a resource that the server refuses to watch, in status and in serve.
// Collections that this sync does not mirror must have the notes in the file (issue 37).
func TestUnwatchedIsNoted(t *testing.T) {
	server := clitest.StartServer(t)
	clitest.CreatePod(t, server, "a", "x", nil)
	defer server.InjectFault(fakeapi.Fault{Verb: "watch", Resource: "pods", Status: http.StatusMethodNotAllowed,
		Reason: "MethodNotAllowed"})()
	st, err := store.Open(filepath.Join(t.TempDir(), "s"), store.Options{Logger: &silent})
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
	for !mb.informer.Status().Reflector.ListOnly || !mb.informer.HasSynced() {
		time.Sleep(10 * time.Millisecond)
	}
	status, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := entry.Info{}.Notes(time.Now(), true)
	c := status.Collections[0]
	if state := input.State(time.Now(), c); state != "listed, cannot be watched" || !slices.Equal(c.Notes, want) {
		t.Errorf("%q, %+v", state, c.Notes)
	}
	if notes := m.notes(entry.Info{Identity: mb.identity}); !slices.Equal(notes, want) {
		t.Errorf("what serve notes: %+v", notes)
	}
	old := entry.Info{LastContact: time.Now().Add(-time.Hour)}
	if notes := m.notes(old); len(notes) != 1 || notes[0].Kind != entry.NoteAge {
		t.Errorf("what serve notes of another collection: %+v", notes)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestMirrorOnAFullDisk checks that status and readiness report that the file lacks changes of the objects in memory
// (issue 37).
func TestMirrorOnAFullDisk(t *testing.T) {
	server := clitest.StartServer(t)
	clitest.CreatePod(t, server, "a", "x", nil)
	var disk hook.Gate
	st, err := store.Open(filepath.Join(t.TempDir(), "s"), store.Options{Logger: &silent,
		Hooks: &hook.Hooks{Commit: disk.Commit}})
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
	disk.Fail(func() error { return syscall.ENOSPC })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.run(ctx) }()
	pods := func(is func(c source.Collection) bool) source.Collection {
		t.Helper()
		for {
			next := st.Committed()
			status, err := m.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c := status.Collections[0]; is(c) {
				return c
			}
			select {
			case <-next:
			case <-time.After(50 * time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("the status does not come")
			}
		}
	}
	first := pods(func(c source.Collection) bool { return c.Live.Uncommitted && c.Live.Source == string(informer.Live) })
	if state := input.State(time.Now(), first); first.Complete || !strings.HasPrefix(state, "behind, incomplete") {
		t.Errorf("before the first list is committed: %q, complete %v", state, first.Complete)
	}
	if why := notReady(mb.collection(), config.ReadyDisk); why != "the first list is not in the file yet" {
		t.Errorf("before the first list is committed: not ready: %q", why)
	}
	disk.Fail(nil)
	stored := pods(func(c source.Collection) bool { return c.Live.Synced && !c.Live.Uncommitted })
	if why := notReady(mb.collection(), config.ReadyDisk); why != "" {
		t.Errorf("not ready: %s", why)
	}
	disk.Fail(func() error { return syscall.ENOSPC })
	clitest.CreatePod(t, server, "a", "y", nil)
	behind := pods(func(c source.Collection) bool { return c.Live.Uncommitted })
	if behind.ResourceVersion != stored.ResourceVersion || behind.LastContact.After(mb.informer.Status().LastContact) ||
		mb.informer.Status().ResourceVersion == stored.ResourceVersion {
		t.Errorf("the file is at %s of %s, the mirror at %s; status says %s of %s", stored.ResourceVersion,
			stored.LastContact, mb.informer.Status().ResourceVersion, behind.ResourceVersion, behind.LastContact)
	}
	if why := notReady(mb.collection(), config.ReadyResumed); why != "" {
		t.Errorf("the mirror is served from memory, and not ready: %s", why)
	}
	disk.Fail(nil)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestMirrorOfAnOverwrittenFile checks that a sync is not ready, and ends with an error, once another file has been
// copied over its own (issue 37).
func TestMirrorOfAnOverwrittenFile(t *testing.T) {
	server := clitest.StartServer(t)
	path := filepath.Join(t.TempDir(), "s")
	other, err := store.Open(path+"-other", store.Options{Logger: &silent})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	backup, err := os.ReadFile(path + "-other")
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(path, store.Options{Logger: &silent})
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
	ended := make(chan error, 1)
	go func() { ended <- m.run(t.Context()) }()
	if !cache.WaitForCacheSync(t.Context().Done(), mb.informer.HasSynced) {
		t.Fatal("it has not synced")
	}
	if err := os.WriteFile(path, backup, 0o600); err != nil { // WriteFile overwrites the same inode, as cp does
		t.Fatal(err)
	}
	if _, err := m.Status(t.Context()); !errors.Is(err, store.ErrOverwritten) {
		t.Errorf("status: %v", err)
	}
	sv := &service{}
	sv.mirror.Store(m)
	if first := sv.readiness()[0]; !strings.Contains(first.Problem, store.ErrOverwritten.Error()) {
		t.Errorf("readiness: %+v", first)
	}
	if err := <-ended; !errors.Is(err, store.ErrOverwritten) {
		t.Errorf("the mirror ended: %v", err)
	}
}

package cli

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

type runningSync struct {
	t      *testing.T
	store  string
	server *fakeapi.Server
	ahead  atomic.Int64 // ahead is the offset of the sync's clock from the real time, in nanoseconds

	mu  sync.Mutex
	log bytes.Buffer // mu guards log

	end   context.CancelFunc
	ended chan int
}

func newSync(t *testing.T, server *fakeapi.Server) *runningSync {
	return &runningSync{t: t, server: server, store: filepath.Join(t.TempDir(), "s.db")}
}

func (s *runningSync) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

// said returns the log of all runs of this sync so far.
func (s *runningSync) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// start starts a sync. It waits until the collections are live and the facts about the server (version, keys,
// resources) are stored, for which the sync may request discovery.
func (s *runningSync) start(args ...string) {
	s.t.Helper()
	const keys = "/.well-known/openid-configuration"
	before := s.asked(keys)
	s.startAs("live", args...)
	s.until("learned", func() bool { return s.asked(keys) > before })
}

func (s *runningSync) startAs(source string, args ...string) {
	s.t.Helper()
	ctx, end := context.WithCancel(s.t.Context())
	s.end, s.ended = end, make(chan int, 1)
	io := command.IO{Out: s, Err: s, Now: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }}
	go func() {
		s.ended <- Run(ctx, append([]string{"sync", "--store", s.store, "--server", s.server.Config().Host}, args...), io)
	}()
	s.until(source, func() bool {
		_, out, _ := runs(s.t.Context(), "status", s.store, "-o", "json")
		return strings.Contains(out, `"source": "`+source+`"`) && !strings.Contains(out, `"source": "none"`)
	})
}

func (s *runningSync) stop() {
	s.t.Helper()
	s.end()
	if code := <-s.ended; code != command.OK {
		s.t.Errorf("exit code %d", code)
	}
}

func (s *runningSync) run(args ...string) {
	s.t.Helper()
	s.start(args...)
	s.stop()
}

// until waits until done returns true; what names the condition in the failure. Every second it advances the clock of
// the sync by a minute, because the sync may be waiting for its next request to the server.
func (s *runningSync) until(what string, done func() bool) {
	s.t.Helper()
	for begun, n := time.Now(), 1; !done(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > time.Duration(n)*time.Second {
			s.ahead.Add(int64(time.Minute))
			n++
		}
		if n > 30 {
			s.end()
			<-s.ended
			s.t.Fatalf("not %s:\n%s", what, s.said())
		}
	}
}

func (s *runningSync) asked(path string) (n int) {
	for _, r := range s.server.Log() {
		if r.Path == path {
			n++
		}
	}
	return n
}

// pass advances the clock of the sync by each duration in turn, and waits each time for a new discovery request. The
// sync has certainly acted on a response only when it sends the next request.
func (s *runningSync) pass(all ...time.Duration) {
	s.t.Helper()
	for _, d := range all {
		before := s.asked("/apis")
		s.ahead.Add(int64(d))
		s.until("asked", func() bool { return s.asked("/apis") > before })
	}
}

func (s *runningSync) dropped(collections ...string) {
	s.t.Helper()
	for _, c := range collections {
		s.until("dropped: "+c, func() bool { return slices.Contains(s.drops(), c) })
	}
}

func (s *runningSync) drops() (all []string) {
	for line := range strings.Lines(s.said()) {
		if _, rest, ok := strings.Cut(line, "Dropped from the store"); ok {
			_, name, _ := strings.Cut(rest, `collection="`)
			name, _, _ = strings.Cut(name, `"`)
			all = append(all, name)
		}
	}
	return all
}

// wantStored fails the test unless the file holds exactly the wanted collections, and the log reports every removed
// collection as dropped exactly once. Call it after the sync has stopped.
func (s *runningSync) wantStored(want ...string) {
	s.t.Helper()
	st, err := store.Open(s.store, store.Options{ReadOnly: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer st.Close()
	infos, err := st.Collections(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var got []string
	for _, info := range infos {
		got = append(got, info.Identity.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("stored: %q, want %q\n%s", got, want, s.said())
	}
	if drops := s.drops(); len(slices.Compact(slices.Sorted(slices.Values(drops)))) != len(drops) {
		s.t.Errorf("logged twice: %q", drops)
	}
}

// podsIn and the other constants are names of collections in the log.
const (
	podsIn       = "pods.v1 (unstructured)"
	configMapsIn = "configmaps.v1 (unstructured)"
	nodesIn      = "nodes.v1 (unstructured)"
)

// TestSyncDropsUnnamed checks that a sync drops exactly the stored collections that earlier arguments or configuration
// named and the current arguments and configuration do not (issue 39). In each case, the last dropped collection shows
// that the sync has finished its check.
func TestSyncDropsUnnamed(t *testing.T) {
	for name, tc := range map[string]struct {
		before, now []string
		dropped     []string
		stored      []string
	}{
		"arguments": {before: []string{"pods", "cm", "nodes"}, now: []string{"po"},
			dropped: []string{configMapsIn, nodesIn}, stored: []string{podsIn}},
		"scope": {before: []string{"pods", "-n", "a"}, now: []string{"pods", "-n", "b"},
			dropped: []string{"pods.v1 in namespace a (unstructured)"},
			stored:  []string{"pods.v1 in namespace b (unstructured)"}},
		"everything, but for one": {before: []string{"pods", "cm", "nodes"}, now: []string{"--all", "--exclude", "cm,nodes"},
			dropped: []string{configMapsIn, nodesIn}, stored: []string{podsIn, "namespaces.v1 (unstructured)",
				"secrets.v1 (unstructured)", "deployments.v1.apps (unstructured)"}},
		"what was not named stays": {before: []string{"--all", "nodes"}, now: []string{"pods"}, dropped: []string{nodesIn},
			stored: []string{podsIn, configMapsIn, "namespaces.v1 (unstructured)", "secrets.v1 (unstructured)",
				"deployments.v1.apps (unstructured)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSync(t, clitest.StartServer(t))
			s.run(append(tc.before, "--persist-secrets")...)
			s.start(append(tc.now, "--persist-secrets")...)
			s.dropped(tc.dropped...)
			s.stop()
			s.wantStored(tc.stored...)
		})
	}
	t.Run("configuration", func(t *testing.T) {
		t.Parallel()
		s := newSync(t, clitest.StartServer(t))
		file := filepath.Join(t.TempDir(), "sync.yaml")
		for _, names := range []string{"{name: pods}, {name: cm}, {name: nodes}", "{name: pods}"} {
			text := "apiVersion: larder.dev/v1alpha1\nkind: SyncConfig\nresources: [" + names + "]\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s.start("--config", file)
			if len(names) < 20 {
				s.dropped(configMapsIn, nodesIn)
			}
			s.stop()
		}
		s.wantStored(podsIn)
	})
	t.Run("kept", func(t *testing.T) {
		t.Parallel()
		s := newSync(t, clitest.StartServer(t))
		s.run("pods", "cm")
		s.run("pods", "--keep-unnamed")
		s.wantStored(podsIn, configMapsIn)
		s.start("pods")
		s.dropped(configMapsIn)
		s.stop()
		s.wantStored(podsIn)
	})
	t.Run("offline", func(t *testing.T) {
		t.Parallel()
		s := newSync(t, clitest.StartServer(t))
		s.run("pods", "cm")
		s.server.Stop()
		s.startAs("disk", "pods")
		s.stop()
		s.wantStored(podsIn, configMapsIn)
		s.startAs("disk", "pods")
		if err := s.server.Start(); err != nil {
			t.Fatal(err)
		}
		s.dropped(configMapsIn)
		s.stop()
		s.wantStored(podsIn)
	})
}

// TestSyncKeepsNamed checks that a resource named on the command line is not dropped when the server does not describe
// it, forbids it or has replaced it, and that its name keeps its meaning. The stored nodes are dropped, because the
// command line does not name them.
func TestSyncKeepsNamed(t *testing.T) {
	old := custom("retired.example", "v1beta1", "things", "Thing")
	replaced := custom("retired.example", "v1", "things", "Thing")
	away, deleted := custom("away.example", "v1", "readings", "Reading"), custom("gone.example", "v1", "ghosts", "Ghost")
	mine, theirs := custom("a.example", "v1", "backups", "Backup"), custom("b.example", "v1", "backups", "Backup")
	server := fakeapi.New(fakeapi.Options{Resources: []fakeapi.Resource{replaced, old, away, deleted, mine, theirs}})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	server.SetServed(replaced.GroupVersionResource, false)
	server.SetServed(mine.GroupVersionResource, false)
	named := []string{"things", "readings", "ghosts", "backups", "configmaps"}
	s := newSync(t, server)
	s.run(append(named, "nodes")...)

	server.SetServed(old.GroupVersionResource, false)
	server.SetServed(replaced.GroupVersionResource, true)
	server.SetServed(mine.GroupVersionResource, true)
	server.SetServed(deleted.GroupVersionResource, false)
	server.SetAvailable(away.GroupVersion(), false)
	server.InjectFault(fakeapi.Fault{Resource: "configmaps", Status: http.StatusForbidden, Reason: "Forbidden"})
	s.startAs("live", named...)
	s.dropped(nodesIn)
	s.stop()
	s.wantStored("things.v1beta1.retired.example (unstructured)", "things.v1.retired.example (unstructured)",
		"readings.v1.away.example (unstructured)", "ghosts.v1.gone.example (unstructured)",
		"backups.v1.a.example (unstructured)", "backups.v1.b.example (unstructured)", configMapsIn)
}

// ghosts is the custom resource that the tests delete from the server; ghostsIn is the name of its collection in the
// log.
var ghosts, ghostsIn = custom("gone.example", "v1", "ghosts", "Ghost"), "ghosts.v1.gone.example (unstructured)"

func everythingIn(also ...string) []string {
	return append(also, podsIn, configMapsIn, nodesIn, "namespaces.v1 (unstructured)",
		"deployments.v1.apps (unstructured)")
}

func startWith(t *testing.T, also ...fakeapi.Resource) *fakeapi.Server {
	t.Helper()
	server := fakeapi.New(fakeapi.Options{Resources: append(also, ghosts)})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// TestSyncDropsMissingResources checks that sync --all drops a resource that the server has lacked for 24 hours of
// running syncs. It does not drop resources of a group that the server does not describe, forbidden resources or
// replaced versions (issue 39).
func TestSyncDropsMissingResources(t *testing.T) {
	all := []string{"--all", "--exclude", "secrets"}
	t.Run("beside failures", func(t *testing.T) {
		t.Parallel()
		old := custom("retired.example", "v1beta1", "things", "Thing")
		replaced := custom("retired.example", "v1", "things", "Thing")
		away := custom("away.example", "v1", "readings", "Reading")
		s := newSync(t, startWith(t, replaced, old, away))
		s.server.SetServed(replaced.GroupVersionResource, false)
		s.run(all...)
		s.server.SetServed(old.GroupVersionResource, false)
		s.server.SetServed(replaced.GroupVersionResource, true)
		s.server.SetServed(ghosts.GroupVersionResource, false)
		s.server.SetAvailable(away.GroupVersion(), false)
		s.server.InjectFault(fakeapi.Fault{Resource: "configmaps", Status: http.StatusForbidden, Reason: "Forbidden"})
		s.startAs("live", all...)
		s.pass(13*time.Hour, 13*time.Hour)
		s.dropped(ghostsIn)
		// Two hours are enough for another attempt: a collection that was open before would be dropped now.
		s.pass(time.Hour, time.Hour)
		s.stop()
		s.wantStored(everythingIn("things.v1beta1.retired.example (unstructured)",
			"things.v1.retired.example (unstructured)", "readings.v1.away.example (unstructured)")...)
	})
	t.Run("across restarts", func(t *testing.T) {
		t.Parallel()
		s := newSync(t, startWith(t))
		s.run(all...)
		s.server.SetServed(ghosts.GroupVersionResource, false)
		s.start(all...)
		s.pass(11*time.Hour, 11*time.Hour, time.Hour)
		s.stop()
		s.wantStored(everythingIn(ghostsIn)...)
		// The week during which no sync runs must not count as time without the resource.
		s.ahead.Add(int64(7 * 24 * time.Hour))
		s.run(all...)
		s.wantStored(everythingIn(ghostsIn)...)
		s.start(all...)
		s.pass(3 * time.Hour)
		s.dropped(ghostsIn)
		s.stop()
		s.wantStored(everythingIn()...)
	})
	t.Run("while it is mirrored", func(t *testing.T) {
		t.Parallel()
		s := newSync(t, startWith(t))
		s.start(all...)
		s.server.SetServed(ghosts.GroupVersionResource, false)
		s.pass(time.Minute, 13*time.Hour, 13*time.Hour)
		s.dropped(ghostsIn)
		s.stop()
		s.wantStored(everythingIn()...)
	})
	t.Run("but it comes back", func(t *testing.T) {
		t.Parallel()
		s := newSync(t, startWith(t))
		s.run(all...)
		s.server.SetServed(ghosts.GroupVersionResource, false)
		s.start(all...)
		s.pass(11*time.Hour, 11*time.Hour)
		s.server.SetServed(ghosts.GroupVersionResource, true)
		s.pass(time.Hour)
		s.until("mirrored again", func() bool { return strings.Contains(s.said(), "Mirrored from now on") })
		s.server.SetServed(ghosts.GroupVersionResource, false)
		s.pass(time.Minute, 11*time.Hour, 11*time.Hour, time.Hour)
		s.stop()
		s.wantStored(everythingIn(ghostsIn)...)
	})
	t.Run("but the server does not say so", func(t *testing.T) {
		t.Parallel()
		for _, status := range []int{http.StatusForbidden, http.StatusServiceUnavailable} {
			s := newSync(t, startWith(t))
			s.run(all...)
			s.server.SetServed(ghosts.GroupVersionResource, false)
			s.start(all...)
			s.pass(11 * time.Hour)
			heal := s.server.InjectFault(fakeapi.Fault{Verb: "discovery", Status: status})
			for range 2 {
				// Requests for /api are counted, because the sync does not request /apis while discovery fails.
				before := s.asked("/api")
				s.ahead.Add(int64(13 * time.Hour))
				s.until("asked", func() bool { return s.asked("/api") > before+1 })
			}
			heal()
			s.pass(time.Minute, 11*time.Hour, time.Hour)
			s.stop()
			s.wantStored(everythingIn(ghostsIn)...)
		}
	})
	t.Run("but it is named", func(t *testing.T) {
		t.Parallel()
		also := custom("named.example", "v1", "things", "Thing")
		s := newSync(t, startWith(t, also))
		s.run(all...)
		s.server.SetServed(also.GroupVersionResource, false)
		s.server.SetServed(ghosts.GroupVersionResource, false)
		s.startAs("live", append(all, "things.named.example")...)
		s.pass(13*time.Hour, 13*time.Hour)
		s.dropped(ghostsIn)
		s.stop()
		s.wantStored(everythingIn("things.v1.named.example (unstructured)")...)
	})
}

package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestExposition pins names, types, help and labels, because dashboards and alerts depend on them.
func TestExposition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 3 {
			r.source.Add(pod(fmt.Sprint(n)))
		}
		r.m.CountReceived(&rest.Config{})
		r.run(r.inform(informer.Options{}), sleeper{})
		time.Sleep(10 * time.Second)
		r.source.Modify(pod("1"))
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if *update {
			writeExposition(t, r)
		}
		want, err := os.ReadFile(exposition)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("COLLECTION", identity("").ID(), "FILE", r.path).Replace(string(want))
		if err := testutil.GatherAndCompare(r.reg, strings.NewReader(text), named(text)...); err != nil {
			t.Error(err)
		}
		problems, err := testutil.GatherAndLint(r.reg)
		if err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", problems, err)
		}
		all, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		left := map[string]bool{}
		for _, name := range ofFiles {
			left[name] = true
		}
		for _, name := range named(text) {
			left[name] = true
		}
		for _, f := range all {
			if !left[f.GetName()] {
				t.Errorf("%s is not in testdata/exposition.txt", f.GetName())
			}
		}
		if n := len(r.samples(ofFiles...)); n != len(ofFiles) {
			t.Errorf("%d of %d metrics of the file", n, len(ofFiles))
		}
		r.close()
	})
}

const exposition = "testdata/exposition.txt"

var ofFiles = []string{"larder_store_size_bytes", "larder_store_free_bytes", "larder_store_written_bytes_total"}

var update = flag.Bool("update", false, "write "+exposition+" and the tables of docs/metrics.md anew")

func writeExposition(t *testing.T, r *rig) {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(r.reg, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text := ""
	for line := range strings.Lines(strings.NewReplacer(identity("").ID(), "COLLECTION", r.path, "FILE").Replace(
		answer.Body.String())) {
		if !slices.ContainsFunc(ofFiles, func(name string) bool { return strings.Contains(line, name) }) {
			text += line
		}
	}
	if err := os.WriteFile(exposition, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func named(text string) (names []string) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "TYPE" {
			names = append(names, f[2])
		}
	}
	return names
}

// TestOffline checks that the metrics show the age of the data and the error after a restart without a server.
func TestOffline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.source.Add(pod("1"))
		r.run(r.inform(informer.Options{}))
		lastContact := time.Now().Unix()
		r.stop()
		r.source.setFail(func(string) error {
			return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("from the test"))
		})
		time.Sleep(time.Hour)
		r.run(r.inform(informer.Options{}))
		r.expect("offline", "larder_degraded Forbidden 1", "larder_objects 1", "larder_resource_version_age_seconds 3600",
			"larder_source disk 1")
		if got, want := r.samples("larder_last_contact_timestamp_seconds"),
			fmt.Sprint("larder_last_contact_timestamp_seconds ", float64(lastContact)); len(got) != 1 || got[0] != want {
			t.Errorf("last contact %q, want %q", got, want)
		}
		r.absent("not synced", "larder_informer_synced")
		r.source.setFail(nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		r.expect("back", "larder_degraded none 1", "larder_informer_synced 1", "larder_source live 1")
		r.close()
	})
}

func TestRelists(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.source.Add(pod("1"))
		i := r.inform(informer.Options{})
		r.run(i)
		r.absent("cold", "larder_relists_total")
		var once sync.Once
		r.source.setFail(func(verb string) (err error) {
			if verb == "watch" {
				once.Do(func() { err = apierrors.NewResourceExpired("from the test") })
			}
			return err
		})
		r.source.ResetWatch()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.expect("after a 410", "larder_relists_total Expired 1")
		if got := r.samples("larder_watches_total"); len(got) != 1 || got[0] == "larder_watches_total 1" {
			t.Errorf("watches %q", got)
		}
		r.close()
	})
}

// TestRewriting checks that larder_rewriting shows the reason of a rewriting list until the list ends.
func TestRewriting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.source.Add(pod("1"))
		r.run(r.inform(informer.Options{TransformVersion: "1"}))
		r.absent("first", "larder_rewriting")
		r.stop()
		r.source.setFail(func(string) error {
			return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("from the test"))
		})
		r.run(r.inform(informer.Options{TransformVersion: "2"}))
		r.expect("offline", "larder_degraded Forbidden 1", "larder_rewriting TransformChanged 1")
		r.source.setFail(nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		r.absent("rewritten", "larder_rewriting")
		r.expect("rewritten", "larder_relists_total TransformChanged 1")
		r.close()
	})
}

// TestKnownDefects checks that a known defect of the stored objects has a series while the defect lasts (issue 37).
func TestKnownDefects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.source.Add(pod("1"))
		r.source.setFail(func(verb string) error {
			if verb == "watch" {
				return apierrors.NewMethodNotSupported(corev1.Resource("pods"), "watch")
			}
			return nil
		})
		r.run(r.inform(informer.Options{TransformVersion: "1"}))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.expect("not watched", "larder_known_defect listOnly 1", "larder_known_defect transform 1")
		r.source.setFail(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.expect("watched", "larder_known_defect transform 1", "larder_source live 1")
		time.Sleep(10 * time.Minute)
		r.expect("quiet", "larder_known_defect transform 1", "larder_source live 1")
		r.source.setFail(func(string) error { return apierrors.NewUnauthorized("from the test") })
		r.source.ResetWatch()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		r.expect("away", "larder_known_defect age 1", "larder_known_defect transform 1")
		r.close()
	})
}

// TestFullDisk checks that failed commits are counted, and that larder_degraded shows their class meanwhile.
func TestFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.closeFile()
		r.o.MaxSize = 1 << 20
		r.open()
		r.run(r.inform(informer.Options{}))
		big := pod("1")
		big.Annotations = map[string]string{"big": strings.Repeat("x", 8<<20)}
		r.source.Add(big)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.expect("full", "larder_degraded NoSpace 1", "larder_source live 1") // Uncommitted changes are in memory.
		if len(r.samples("larder_commit_failures_total")) == 0 {
			t.Error("no failures were counted")
		}
		r.close()
	})
}

// TestEndedInformers checks that the metrics of ended informers disappear, even while a handler still runs.
func TestEndedInformers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.source.Add(pod("1"))
		busy := make(chan struct{})
		r.source.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "1"}})
		a, b := r.inform(informer.Options{Identity: identity("a")}), r.inform(informer.Options{Identity: identity("b")})
		stop := r.run(a, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-busy }})
		r.run(b, sleeper{})
		time.Sleep(time.Second)
		r.expect("both", "larder_objects a 1", "larder_objects b 1")
		go stop()
		synctest.Wait()
		if a.IsStopped() {
			r.expect("one", "larder_objects b 1")
		}
		next := r.inform(informer.Options{Identity: identity("a")})
		r.expect("before the next one runs", "larder_objects a 1", "larder_objects b 1")
		r.run(next)
		close(busy)
		r.stop()
		r.absent("none", "larder_objects", "larder_handler_duration_seconds", "larder_store_size_bytes")
		r.close()
	})
}

// TestOneCollectionTwice checks that scrapes show only the older of two informers with equal labels.
func TestOneCollectionTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		first := r.inform(informer.Options{})
		stop := r.run(first)
		r.source.Add(pod("1"))
		r.run(r.inform(informer.Options{InMemory: true}), sleeper{})
		time.Sleep(time.Second)
		r.expect("both", "larder_objects 1")
		r.absent("the older has no handler", "larder_handler_duration_seconds")
		stop()
		r.expect("the newer", "larder_handler_duration_seconds github.com/larder-dev/larder/metrics.sleeper 1 of 0.5",
			"larder_objects 1")
		r.absent("in memory", "larder_store_size_bytes")
		r.close()
	})
}

// TestSharedCollection checks that informers on one collection share its metrics until the last informer ends.
func TestSharedCollection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		stop := r.run(r.inform(informer.Options{}))
		r.run(r.inform(informer.Options{}), sleeper{})
		r.source.Add(pod("1"))
		time.Sleep(2 * time.Second)
		handler := "larder_handler_duration_seconds github.com/larder-dev/larder/metrics.sleeper 1 of 0.5"
		r.expect("both", handler, "larder_objects 1")
		stop()
		r.expect("the second", handler, "larder_objects 1")
		r.close()
	})
}

// TestSuccessorOfAClosedStore checks that an informer that never ran does not hide later informers (issue 3).
func TestSuccessorOfAClosedStore(t *testing.T) {
	for _, when := range []string{"before its successor is made", "after that"} {
		t.Run(when, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.source.Add(pod("1"))
				r.inform(informer.Options{})
				first := r.file
				if when == "after that" {
					r.path += ".next"
				} else {
					r.closeFile()
					r.expect("no successor yet", "larder_degraded Closed 1")
				}
				r.open()
				r.run(r.inform(informer.Options{}))
				if err := first.Close(); err != nil {
					t.Error(err)
				}
				r.expect("its successor", "larder_degraded none 1", "larder_informer_synced 1", "larder_objects 1")
				r.stop()
				if n := len(r.m.all()); when != "after that" && n != 0 {
					t.Errorf("%d informers are kept", n)
				}
				r.close()
			})
		})
	}
}

// TestHandlers checks that the values of handlers with the same name are added up.
func TestHandlers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 5 {
			r.source.Add(pod(fmt.Sprint(n)))
		}
		r.run(r.inform(informer.Options{}), sleeper{}, sleeper{})
		r.expect("at the start", "larder_handler_pending_calls github.com/larder-dev/larder/metrics.sleeper 8")
		time.Sleep(time.Second)
		synctest.Wait()
		r.expect("a second later", "larder_handler_duration_seconds github.com/larder-dev/larder/metrics.sleeper 4 of 2",
			"larder_handler_pending_calls github.com/larder-dev/larder/metrics.sleeper 4")
		r.close()
	})
}

// TestGatherWhileRunning scrapes while informers run, for the race detector.
func TestGatherWhileRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		done := make(chan struct{})
		var scrapers sync.WaitGroup
		for range 2 {
			scrapers.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(time.Millisecond):
					}
					if _, err := r.reg.Gather(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for round := range 2 {
			for n := range 3 {
				r.run(r.inform(informer.Options{Identity: identity(fmt.Sprint(n))}), sleeper{})
			}
			for n := range 20 {
				r.source.Add(pod(fmt.Sprintf("%d-%d", round, n)))
				time.Sleep(time.Millisecond)
			}
			r.stop()
		}
		close(done)
		scrapers.Wait()
		r.close()
	})
}

func TestReceived(t *testing.T) {
	api := fakeapi.New(fakeapi.Options{})
	if err := api.Start(); err != nil {
		t.Fatal(err)
	}
	defer api.Stop()
	m := New()
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("%d metrics before anything is counted", n)
	}
	config := m.CountReceived(api.Config())
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if m.received.Bytes() == 0 {
		t.Error("nothing was counted")
	}
	if got := testutil.ToFloat64(m); got != float64(m.received.Bytes()) { // The only metric without an informer.
		t.Errorf("collected %v of %d", got, m.received.Bytes())
	}
}

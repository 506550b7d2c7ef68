package demo

import (
	"net/url"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func at(name, rv string) *corev1.Pod {
	pod := newPod(name)
	pod.Namespace = "ns"
	pod.ResourceVersion = rv
	return pod
}

func going(name, rv string) *corev1.Pod {
	pod := at(name, rv)
	pod.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
	return pod
}

// TestLedgerSees checks that the demo's event handler reports each kind of wrong event: missing, repeated, stale and
// unexpected events.
func TestLedgerSees(t *testing.T) {
	want := changes{created: []string{"ns/c"}, updated: []string{"ns/a"}, deleted: []string{"ns/b"}}
	good := []func(l *ledger){
		func(l *ledger) { l.OnAdd(at("a", "1"), true) },
		func(l *ledger) { l.OnAdd(at("b", "2"), true) },
		func(l *ledger) { l.OnUpdate(at("a", "1"), at("a", "3")) },
		func(l *ledger) { l.OnAdd(at("c", "4"), false) },
		func(l *ledger) { l.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/b", Obj: at("b", "2")}) },
	}
	for name, steps := range map[string][]func(l *ledger){
		"good":           good,
		"nothing":        nil,
		"no replay":      good[2:],
		"no delete":      good[:4],
		"no add":         slices.Delete(slices.Clone(good), 3, 4),
		"no update":      slices.Delete(slices.Clone(good), 2, 3),
		"added twice":    append(slices.Clone(good), good[3]),
		"replayed twice": append(slices.Clone(good), good[0]),
		"empty update":   append(slices.Clone(good), func(l *ledger) { l.OnUpdate(at("c", "4"), at("c", "4")) }),
		"stale replay":   append([]func(l *ledger){func(l *ledger) { l.OnAdd(at("a", "0"), true) }}, good[1:]...),
		"announced": slices.Insert(slices.Clone(good), 4,
			func(l *ledger) { l.OnUpdate(at("b", "2"), going("b", "5")) }),
		"wrong one":      append(slices.Clone(good), func(l *ledger) { l.OnUpdate(at("a", "3"), going("a", "5")) }),
		"announced only": append(slices.Clone(good[:4]), func(l *ledger) { l.OnUpdate(at("b", "2"), going("b", "5")) }),
		"empty tombstone": append(slices.Clone(good[:4]),
			func(l *ledger) { l.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/b"}) }),
	} {
		l := newLedger(map[string]string{"ns/a": "1", "ns/b": "2"}, "ns/marker")
		for _, step := range steps {
			step(l)
		}
		if err := l.compare(2, want); (err == nil) != (name == "good" || name == "announced") {
			t.Errorf("%s: %v", name, err)
		}
		l.OnAdd(at("marker", "9"), false)
		l.OnAdd(at("marker", "9"), false)
		select {
		case <-l.marked:
		default:
			t.Errorf("%s: the marker was not noticed", name)
		}
	}
}

func TestStateSees(t *testing.T) {
	want := state{"ns/a": at("a", "1"), "ns/b": at("b", "2")}
	changed := at("b", "2")
	changed.Spec.NodeName = "elsewhere"
	for name, pods := range map[string][]*corev1.Pod{
		"good":    {at("a", "1"), at("b", "2")},
		"missing": {at("a", "1")},
		"extra":   {at("a", "1"), at("b", "2"), at("c", "3")},
		"other":   {at("a", "1"), at("c", "2")},
		"old":     {at("a", "1"), at("b", "1")},
		"changed": {at("a", "1"), changed},
	} {
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		for _, pod := range pods {
			must(t, store.Add(pod))
		}
		if err := want.equal(store); (err == nil) != (name == "good") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRequestsCount(t *testing.T) {
	for _, c := range []struct {
		verb, query string
		want        Requests
	}{
		{"list", "", Requests{Lists: 1, Pages: 1}},
		{"list", "limit=500", Requests{Lists: 1, Pages: 1}},
		{"list", "limit=1", Requests{Probes: 1}},
		{"list", "limit=1&continue=x", Requests{Pages: 1}},
		{"list", "limit=1&fieldSelector=metadata.name%3Da%2Cmetadata.namespace%3Db", Requests{Lookups: 1}},
		{"list", "limit=51&timeoutSeconds=1", Requests{Compares: 1}},
		{"watch", "resourceVersion=5", Requests{Watches: 1}},
		{"watch", "resourceVersion=5&sendInitialEvents=true", Requests{WatchLists: 1}},
		{"watch", "", Requests{WatchLists: 1}},
		{"create", "", Requests{}},
	} {
		query, err := url.ParseQuery(c.query)
		must(t, err)
		var got Requests
		got.Count(c.verb, query)
		if got != c.want {
			t.Errorf("%s %s: %+v, not %+v", c.verb, c.query, got, c.want)
		}
	}
	got := Requests{Lists: 1, Pages: 4, Probes: 1, Lookups: 2, Watches: 1}.String() + "; " + Requests{WatchLists: 2,
		Lists: 1, Pages: 1}.String()
	if want := "1 list (4 pages), 1 watch, 1 probe, 2 look-ups; 1 list, 2 watches of the whole state"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestFigures(t *testing.T) {
	for got, want := range map[string]string{
		count(7): "7", count(1000): "1,000", count(1234567): "1,234,567", count(100): "100",
		size(999): "999 B", size(1234): "1.2 kB", size(308_000_000): "308.0 MB",
		span(12345 * time.Microsecond): "12 ms", span(1500 * time.Millisecond): "1.5 s",
	} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	keys := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	if got := spread(keys, 5); !slices.Equal(got, []string{"1", "3", "5", "7", "9"}) {
		t.Errorf("spread: %v", got)
	}
	if got := spread(keys[:2], 5); len(got) != 2 {
		t.Errorf("spread over too few: %v", got)
	}
}

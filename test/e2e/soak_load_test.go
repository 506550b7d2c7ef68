package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// soakRate is the number of writes per second. Each of soakWriters goroutines makes one write at a time, and has the
// time soakTurn for a write. A late writer catches up, so the rate holds if a write takes soakTurn or less on average.
// On a slower machine writes take longer, which soakPace reports.
const (
	soakRate    = 500
	soakWriters = 16
	soakTurn    = time.Second * soakWriters / soakRate
)

// One write in soakDeletes is a delete. The next write of a deleted object creates it again.
const soakDeletes = 20

// soakBody is the value of an annotation of every pod. It is two kilobytes long, so that a leaked pod shows in the
// heap.
var soakBody = strings.Repeat("larder", 350)

type soakLoad struct {
	cluster *cluster
	pods    int
	writers []*soakWriter
	writing time.Duration
}

// soakWriter writes the pods whose number modulo soakWriters equals its index, so that no pod has two writers.
type soakWriter struct {
	*soakLoad
	random   *rand.Rand
	first    int
	next     int
	revision int               // number of the last write, stored in the pod
	versions map[string]string // resourceVersions of the writer's pods, by key
	writes   int
	waited   time.Duration // total time from requests to answers
}

func newSoakLoad(c *cluster, pods int) *soakLoad {
	l := &soakLoad{cluster: c, pods: pods}
	for n := range soakWriters {
		l.writers = append(l.writers, &soakWriter{
			soakLoad: l, random: rand.New(rand.NewPCG(4, uint64(n))), first: n, next: n, versions: map[string]string{},
		})
	}
	return l
}

// versions returns the resourceVersions of all pods. It must not be called during writes.
func (l *soakLoad) versions() map[string]string {
	all := map[string]string{}
	for _, w := range l.writers {
		maps.Copy(all, w.versions)
	}
	return all
}

func (l *soakLoad) write(t *testing.T, writes int) {
	begun := time.Now()
	var wg sync.WaitGroup
	for _, w := range l.writers {
		wg.Go(func() {
			if err := w.write(t.Context(), (writes+soakWriters-1)/soakWriters); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	l.writing += time.Since(begun)
}

func (w *soakWriter) write(ctx context.Context, writes int) error {
	begun := time.Now()
	for n := range writes {
		time.Sleep(time.Until(begun.Add(time.Duration(n) * soakTurn)))
		asked := time.Now()
		if err := w.one(ctx); err != nil {
			return err
		}
		w.writes++
		w.waited += time.Since(asked)
	}
	return nil
}

// pace returns the speed of all writes so far. It must not be called during writes.
func (l *soakLoad) pace() soakPace {
	p := soakPace{writing: l.writing}
	for _, w := range l.writers {
		p.writes += w.writes
		p.waited += w.waited
	}
	return p
}

type soakPace struct {
	writes  int
	writing time.Duration // total duration, without pauses for measurements
	waited  time.Duration // the sum over all writes
}

// String describes the rate and the duration of writes. If the rate is below soakRate, the text says whether slow
// writes are the cause.
func (p soakPace) String() string {
	rate := float64(p.writes) / p.writing.Seconds()
	took := p.waited / time.Duration(max(1, p.writes))
	s := fmt.Sprintf("%d writes in %s of writing: %.0f/s; a write took %s, for which %d writers at %d/s have %s", p.writes,
		p.writing.Round(time.Second), rate, took.Round(100*time.Microsecond), soakWriters, soakRate, soakTurn)
	switch {
	case rate >= soakRate:
		return s
	case took > soakTurn:
		return fmt.Sprintf("THE TARGET OF %d/s WAS NOT REACHED: %s. So many writers are too few, or the machine is too slow",
			soakRate, s)
	}
	return fmt.Sprintf("THE TARGET OF %d/s WAS NOT REACHED: %s. The writers suffice, so laps waited for the slowest one",
		soakRate, s)
}

func (w *soakWriter) one(ctx context.Context) error {
	number := w.next
	if number < w.pods {
		w.next += soakWriters
	} else {
		number = w.first + soakWriters*w.random.IntN((w.pods-w.first+soakWriters-1)/soakWriters)
	}
	name := fmt.Sprintf("soak-%05d", number)
	key := cache.NewObjectName(w.cluster.ns, name).String()
	pods := w.cluster.client.CoreV1().Pods(w.cluster.ns)
	w.revision++
	switch _, exists := w.versions[key]; {
	case !exists:
		p := pod(w.cluster.ns, name)
		p.Annotations = map[string]string{"body": soakBody}
		created, err := pods.Create(ctx, p, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		w.versions[key] = created.ResourceVersion
	case w.random.IntN(soakDeletes) == 0:
		delete(w.versions, key)
		return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	default:
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"revision":"%d"}}}`, w.revision)
		patched, err := pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		w.versions[key] = patched.ResourceVersion
	}
	return nil
}

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

// soakRate is how many writes there are in a second, by so many writers, each of which makes one write at a time and
// has soakTurn for it. What a writer is late with it makes as soon as it can, so the rate holds if writes take no
// longer on average. Where the machine cannot do as much they take longer, which soakPace tells.
const (
	soakRate    = 500
	soakWriters = 16
	soakTurn    = time.Second * soakWriters / soakRate
)

// soakDeletes: one write of an object in so many deletes it; the next one creates it again.
const soakDeletes = 20

// soakBody is an annotation of every pod: two kilobytes, so that a pod which is kept shows.
var soakBody = strings.Repeat("larder", 350)

// soakLoad writes pods, and knows what the server holds.
type soakLoad struct {
	cluster *cluster
	pods    int
	writers []*soakWriter
	writing time.Duration // spent in write
}

// soakWriter writes the pods whose number is its own, modulo soakWriters, so that nobody else does.
type soakWriter struct {
	*soakLoad
	random   *rand.Rand
	first    int
	next     int               // the pod to be created, as long as there is one that never was
	revision int               // of writes
	versions map[string]string // by key
	writes   int
	waited   time.Duration // for their answers
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

// versions returns the resourceVersions of what exists, while nothing is written.
func (l *soakLoad) versions() map[string]string {
	all := map[string]string{}
	for _, w := range l.writers {
		maps.Copy(all, w.versions)
	}
	return all
}

// write makes so many writes, about, and returns when they have been answered.
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

// pace is that of all writes so far, while nothing is written.
func (l *soakLoad) pace() soakPace {
	p := soakPace{writing: l.writing}
	for _, w := range l.writers {
		p.writes += w.writes
		p.waited += w.waited
	}
	return p
}

// soakPace is how fast writes were made.
type soakPace struct {
	writes  int
	writing time.Duration // with pauses, for samples, left out
	waited  time.Duration // the sum of what each write took
}

// String gives the rate while writing, and says whether that was soakRate and, if not, what it would have taken.
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

// one creates the next pod, or creates, updates or deletes any.
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

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

// soakRate is how many writes there are in a second, by so many writers. Where the machine can not do as much they take longer.
const (
	soakRate    = 500
	soakWriters = 16
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
}

// soakWriter writes the pods whose number is its own, modulo soakWriters, so that nobody else does.
type soakWriter struct {
	*soakLoad
	random   *rand.Rand
	first    int
	next     int               // the pod to be created, as long as there is one that never was
	revision int               // of writes
	versions map[string]string // by key
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
	var wg sync.WaitGroup
	for _, w := range l.writers {
		wg.Go(func() {
			if err := w.write(t.Context(), (writes+soakWriters-1)/soakWriters); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func (w *soakWriter) write(ctx context.Context, writes int) error {
	ticker := time.NewTicker(time.Second * soakWriters / soakRate)
	defer ticker.Stop()
	for range writes {
		<-ticker.C
		if err := w.one(ctx); err != nil {
			return err
		}
	}
	return nil
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

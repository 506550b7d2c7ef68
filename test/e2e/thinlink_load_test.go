package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// linkRate is the number of pod writes per second. A link of 56 kbit/s carries about six events of 1.1 kB.
const linkRate = 3

// linkLoad changes the cluster's pods continuously. Its own requests do not use the slow network link.
type linkLoad struct {
	c      *cluster
	random *rand.Rand
	// forgiving is true if writes may fail, because the run restarts the API server.
	forgiving bool
	cancel    context.CancelFunc
	done      sync.WaitGroup

	// The goroutine that writes uses these fields, and after its end the caller of stop.
	pods           []string
	writes, failed int
	err            error
}

// startLinkLoad starts the writes. The pods must exist.
func startLinkLoad(t *testing.T, c *cluster, random *rand.Rand, pods []string, forgiving bool) *linkLoad {
	ctx, cancel := context.WithCancel(t.Context())
	l := &linkLoad{c: c, random: random, forgiving: forgiving, cancel: cancel, pods: slices.Clone(pods)}
	l.done.Go(func() { l.run(ctx) })
	t.Cleanup(func() { cancel(); l.done.Wait() })
	return l
}

func (l *linkLoad) run(ctx context.Context) {
	tick := time.NewTicker(time.Second / linkRate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A write in progress is not cancelled, because its outcome would be unknown.
		err := l.write(context.WithoutCancel(ctx))
		if l.writes++; err == nil {
			continue
		}
		if l.failed++; !l.forgiving {
			l.err = err
			return
		}
	}
}

func (l *linkLoad) write(ctx context.Context) error {
	pods := l.c.client.CoreV1().Pods(l.c.ns)
	n := l.random.IntN(len(l.pods))
	switch l.random.IntN(5) {
	case 0:
		name := fmt.Sprintf("new-%05d", l.writes)
		_, err := pods.Create(ctx, pod(l.c.ns, name), metav1.CreateOptions{})
		if err == nil {
			l.pods = append(l.pods, name)
		}
		return err
	case 1:
		name := l.pods[n]
		l.pods = slices.Delete(l.pods, n, n+1)
		return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"written":"%d"}}}`, l.writes)
	_, err := pods.Patch(ctx, l.pods[n], types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (l *linkLoad) stop(t *testing.T) {
	t.Helper()
	l.cancel()
	l.done.Wait()
	if l.err != nil {
		t.Fatal("writing:", l.err)
	}
}

package reflector_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// flakyLink is a TCP proxy that can cut its connections. While it is down it accepts new connections and holds them, so
// that no request fails by itself: client-go does not see the outage.
type flakyLink struct {
	l      net.Listener
	target string

	mu sync.Mutex
	// conns are the open connections. mu guards conns.
	conns map[net.Conn]bool
	// up is closed while connections are forwarded. mu guards up.
	up chan struct{}
}

func newFlakyLink(t *testing.T, target string) *flakyLink {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &flakyLink{l: l, target: target, conns: map[net.Conn]bool{}, up: make(chan struct{})}
	close(f.up)
	t.Cleanup(func() { l.Close(); f.cut(); f.pass() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return f
}

func (f *flakyLink) serve(in net.Conn) {
	defer in.Close()
	f.mu.Lock()
	up := f.up
	f.conns[in] = true
	f.mu.Unlock()
	<-up
	out, err := net.Dial("tcp", f.target)
	if err != nil {
		return
	}
	defer out.Close()
	f.mu.Lock()
	f.conns[out] = true
	f.mu.Unlock()
	go func() { _, _ = io.Copy(out, in); out.Close() }()
	_, _ = io.Copy(in, out)
}

// cut closes every connection of the proxy; new connections wait until pass is called.
func (f *flakyLink) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.up:
		f.up = make(chan struct{})
	default:
	}
	for c := range f.conns {
		c.Close()
	}
	clear(f.conns)
}

// pass ends an outage: waiting connections are forwarded.
func (f *flakyLink) pass() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.up:
	default:
		close(f.up)
	}
}

// TestOvertakenRewindThroughAFlakyLink checks that a restore of the server is detected although the connection is cut
// at random times of each connect. (Issue 16, A13.) LARDER_SOAK=1 makes 300 rounds.
func TestOvertakenRewindThroughAFlakyLink(t *testing.T) {
	rounds := 20
	if os.Getenv("LARDER_SOAK") != "" {
		rounds = 300
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	slots := make(chan struct{}, 10)
	for n := range rounds {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			flakyRound(t, rand.New(rand.NewPCG(seed, uint64(n))))
		})
	}
}

func flakyRound(t *testing.T, r *rand.Rand) {
	l := newLive(t, 30)
	l.stop()
	link := newFlakyLink(t, l.s.Config().Host[len("http://"):])
	l.through(link)
	snap := l.s.Snapshot()
	l.put("lost", "1")
	l.put("cm-001", "lost")
	l.remove("cm-003")
	l.wait("equal", l.equal)
	pause := func(most time.Duration) { time.Sleep(time.Duration(r.Int64N(int64(most)))) }
	cuts := r.IntN(4)
	for at := range cuts + 1 {
		link.cut()
		if at == cuts {
			if err := l.s.Restore(snap); err != nil {
				t.Fatal(err)
			}
			for i := range 8 + r.IntN(10) {
				l.put(fmt.Sprintf("cm-%03d", i+10), "2")
			}
		}
		pause(300 * time.Millisecond)
		link.pass()
		if at < cuts {
			l.put(fmt.Sprintf("cm-%03d", 20+at), "between")
			pause(2500 * time.Millisecond)
		}
	}
	l.wait("equal after the rewind", l.equal)
}

// TestOvertakenRewindWhileItIsCompared checks that a start with Options.Compare detects a restore at any time.
func TestOvertakenRewindWhileItIsCompared(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range 20 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			l := newLive(t, 30)
			snap := l.s.Snapshot()
			l.put("lost", "1")
			l.put("cm-001", "lost")
			l.remove("cm-003")
			l.wait("equal", l.equal)
			l.stop()
			l.o.Compare = l.compare
			link := newFlakyLink(t, l.s.Config().Host[len("http://"):])
			l.through(link)
			time.Sleep(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
			link.cut()
			if err := l.s.Restore(snap); err != nil {
				t.Fatal(err)
			}
			for i := range 8 + r.IntN(10) {
				l.put(fmt.Sprintf("cm-%03d", i+10), "2")
			}
			link.pass()
			l.wait("equal after the rewind", l.equal)
		})
	}
}

func (l *live) compare(ctx context.Context) (c reflector.Comparison, err error) {
	list, err := l.client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return c, err
	}
	c.ResourceVersion = list.ResourceVersion
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	held := map[string]entry.ObjectRef{}
	for key, o := range l.m.objects {
		held[key] = entry.ObjectRef{Key: key, UID: string(o.UID), ResourceVersion: o.ResourceVersion}
	}
	for n := range list.Items {
		listed := entry.RefOf(&list.Items[n])
		if held[listed.Key] != listed {
			c.Differences = append(c.Differences, reflector.Difference{Held: held[listed.Key], Listed: listed})
		}
		delete(held, listed.Key)
	}
	for _, gone := range held {
		c.Differences = append(c.Differences, reflector.Difference{Held: gone})
	}
	return c, nil
}

func (l *live) through(link *flakyLink) {
	cfg := rest.CopyConfig(l.s.Config())
	cfg.Host = "http://" + link.l.Addr().String()
	client := kubernetes.NewForConfigOrDie(cfg)
	l.client = client
	l.startWith(cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "default",
		func(*metav1.ListOptions) {}))
}

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
)

// childEnv is the environment variable with the configuration of a child process. If it is set, the test binary runs an
// informer of pods that a test can kill.
const childEnv = "LARDER_E2E_CHILD"

type childConfig struct {
	Host, CA, Token, UserAgent string
	Store, Namespace           string
	PageSize                   int64
	Log                        string
	CommitInterval             time.Duration
	Durable                    string // file for the durable handler's changes; "" for no handler
	DurableHold                bool   // the handler's calls never return
}

// childReport is a line of the child's output: the state of the child's informer. The child prints a line at every
// change, and every 100 ms.
type childReport struct {
	ResourceVersion string
	Objects         int
	Synced          bool
	Source          informer.Source
	Err             string
	Persistent      bool
	NotPersistent   string
	// Listed is the number of objects that the informer's lister returned, or -1 if the lister failed.
	Listed int
	Index  int
	// DurableSynced is true once the durable handler has received all changes. DurableBehind is the number of changes that
	// the durable handler has not acknowledged.
	DurableSynced bool
	DurableBehind int
}

func childMain() int {
	var c childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &c); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 2
	}
	if _, err := logTo(c.Log); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := c.run(ctx)
	switch {
	case errors.Is(err, entry.ErrDamaged):
		fmt.Fprintln(os.Stderr, "child:", err)
		return exitDamaged
	case err != nil:
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

// exitDamaged is the exit code of a child whose run has ended because its file is damaged. The next child repairs it.
const exitDamaged = 3

func (c childConfig) run(ctx context.Context) error {
	residency, err := testresidency.FromEnv() // the child inherits the parent's environment
	if err != nil {
		return err
	}
	s, err := store.Open(c.Store, store.Options{CommitInterval: c.CommitInterval})
	if err != nil {
		return err
	}
	defer s.Close()
	src, err := newTypedSource(&rest.Config{
		Host: c.Host, BearerToken: c.Token, UserAgent: c.UserAgent, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(c.CA)},
	}, "pods", c.Namespace, "", &corev1.Pod{})
	if err != nil {
		return err
	}
	i, err := informer.New(src.lw, src.example, informer.Options{
		Store: s, Identity: src.identity, PageSize: c.PageSize, Residency: residency,
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err != nil {
		return err
	}
	durable, err := c.addDurable(ctx, s, i, src.identity)
	if err != nil {
		return err
	}
	stopSignals := limitOnSignal(c.Store)
	defer stopSignals()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { i.RunWithContext(ctx) })
	out := json.NewEncoder(os.Stdout)
	var last childReport
	for n := 0; ctx.Err() == nil; n++ {
		st := i.Status()
		if err := s.Err(); err != nil && i.IsStopped() {
			return err
		}
		r := childReport{
			ResourceVersion: st.ResourceVersion, Objects: st.Objects, Synced: i.HasSynced(), Source: st.Source,
			Err:        errOrEmpty(st.Err),
			Persistent: st.Persistent, NotPersistent: st.NotPersistent,
		}
		if r.Listed, r.Index = last.Listed, last.Index; n%20 == 0 {
			r.Listed, r.Index = len(i.GetStore().List()), -1
			if found, err := i.GetIndexer().ByIndex(cache.NamespaceIndex, c.Namespace); err == nil {
				r.Index = len(found)
			}
		}
		r.DurableSynced, r.DurableBehind = durable()
		if r != last || n%20 == 0 {
			if err := out.Encode(r); err != nil {
				return err
			}
			last = r
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// addDurable registers the durable handler. The returned function tells whether the handler has received all changes,
// and how many changes it has not acknowledged.
func (c childConfig) addDurable(
	ctx context.Context, s *store.Store, i *informer.Informer, id entry.Identity,
) (func() (synced bool, behind int), error) {
	if c.Durable == "" {
		return func() (bool, int) { return false, 0 }, nil
	}
	file := durableFile{path: c.Durable, hold: c.DurableHold}
	reg, err := i.Durable().Add("child", durable.Handler{OnChange: file.change})
	if err != nil {
		return nil, err
	}
	codec, err := codec.For(&corev1.Pod{})
	if err != nil {
		return nil, err
	}
	view, err := s.ViewWith(ctx, id, codec)
	if err != nil {
		return nil, err
	}
	return func() (bool, int) {
		handlers, err := view.Cursors(ctx)
		if err != nil || len(handlers) != 1 || handlers[0].Replaying {
			return false, -1
		}
		return reg.HasSynced(), int(handlers[0].Behind)
	}, nil
}

func errOrEmpty(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

type child struct {
	*program
	mu   sync.Mutex
	last childReport
}

func startChild(t *testing.T, cfg *rest.Config, c childConfig) *child {
	t.Helper()
	c.Host, c.CA, c.Token, c.UserAgent = cfg.Host, string(cfg.CAData), cfg.BearerToken, cfg.UserAgent
	c.Log = filepath.Join(filepath.Dir(c.Store), "child.log")
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	p := &child{}
	p.program = startProgram(t, cmd, c.Log+".stderr", func(line []byte) {
		var r childReport
		if json.Unmarshal(line, &r) == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.last = r
		}
	})
	return p
}

func (p *child) report() childReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *child) waitFor(t *testing.T, what string, ok func(childReport) bool) {
	t.Helper()
	p.eventually(t, what, func() string {
		if r := p.report(); !ok(r) {
			return fmt.Sprintf("%+v", r)
		}
		return ""
	})
}

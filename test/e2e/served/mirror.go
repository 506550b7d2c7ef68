package served

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

const patience = 2 * time.Minute

// Mirror is a larder sync --serve. Its address is the same after Kill and Start.
type Mirror struct {
	Store string
	// Kubeconfig is the path of larder's kubeconfig. Its token may read everything.
	Kubeconfig string

	larder    string
	address   string
	args      []string
	resources int
	proc      *controlplane.Process
}

// Mirror starts a mirror of some resources with additional flags of larder sync, and waits until the mirror answers.
// The name must be unique. The caller must call Stop.
func (s *Site) Mirror(ctx context.Context, name string, resources []string, flags ...string) (*Mirror, error) {
	larder, err := s.Larder()
	if err != nil {
		return nil, err
	}
	l, err := controlplane.Listen()
	if err != nil {
		return nil, err
	}
	m := &Mirror{
		Store: filepath.Join(s.Dir, name+".db"), larder: larder, address: l.Addr().String(), resources: len(resources),
	}
	m.Kubeconfig = m.Store + ".kubeconfig"
	if err := l.Close(); err != nil {
		return nil, err
	}
	m.args = slices.Concat([]string{"sync"}, resources,
		[]string{"--kubeconfig", s.Kubeconfig, "--store", m.Store, "--serve", m.address}, flags)
	if err := m.Start(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// Start starts the mirror after Kill or Stop, and waits until the mirror answers.
func (m *Mirror) Start(ctx context.Context) (err error) {
	if m.proc, err = controlplane.StartProcess("larder sync", m.Store+".log", nil, m.larder, m.args...); err != nil {
		return err
	}
	if err := m.wait(ctx, "the mirror answers", m.answers); err != nil {
		m.Kill()
		return err
	}
	return nil
}

func (m *Mirror) answers(ctx context.Context) error {
	config, err := m.Config("")
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/version", nil)
	if err != nil {
		return err
	}
	w, err := client.Do(r)
	if err != nil {
		return err
	}
	return w.Body.Close()
}

// Synced waits until all resources have been listed.
func (m *Mirror) Synced(ctx context.Context) error {
	return m.wait(ctx, "the mirror has listed everything", func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, m.larder, "status", "--from", m.Store, "-o", "json").Output()
		if err != nil {
			return err
		}
		var status struct {
			Collections []struct{ Live struct{ Synced bool } }
		}
		if err := json.Unmarshal(out, &status); err != nil {
			return err
		}
		n := 0
		for _, c := range status.Collections {
			if c.Live.Synced {
				n++
			}
		}
		if n != m.resources {
			return fmt.Errorf("%d of %d resources", n, m.resources)
		}
		return nil
	})
}

// Learned waits until the store also has the API server's version, discovery data and public keys for service account
// tokens. Schemas may follow later.
func (m *Mirror) Learned(ctx context.Context) error {
	to := m.Store + ".learned.larder"
	defer func() { _ = os.Remove(to) }()
	return m.wait(ctx, "the mirror knows the API server", func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, m.larder, "snapshot", "save", to, "--from", m.Store, "--force",
			"--include-secrets").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		f, err := snapshot.Open(to, snapshot.OpenOptions{})
		if err != nil {
			return err
		}
		defer f.Close()
		known, err := facts.Read(ctx, f)
		if err != nil {
			return err
		}
		if known.Version == nil || known.Discovery == nil || known.Keys == nil {
			return fmt.Errorf("it knows %v", known)
		}
		return nil
	})
}

func (m *Mirror) wait(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if exited := m.proc.Exited(); exited != nil {
			return exited
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w\n%s", what, err, m.proc.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Config returns a client configuration for the mirror with larder's own token and the given user agent.
func (m *Mirror) Config(userAgent string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", m.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = userAgent
	return config, nil
}

// Address returns host:port, which never changes.
func (m *Mirror) Address() string { return m.address }

// Kill kills the mirror with SIGKILL.
func (m *Mirror) Kill() {
	m.proc.Kill()
	m.proc = nil
}

// Stop terminates the mirror and waits for its end. After Kill or another Stop it does nothing.
func (m *Mirror) Stop() error {
	if m.proc == nil {
		return nil
	}
	err := m.proc.Terminate()
	m.proc = nil
	return err
}

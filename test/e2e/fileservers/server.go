package fileservers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

const (
	patience = 2 * time.Minute
	// tries is the maximum number of attempts to start a server, because another process may take the chosen port first.
	tries = 5
)

var errTaken = errors.New("the port is taken")

type server struct {
	name string
	// ready is a path that a ready server answers with a status below 500.
	ready   string
	command func(address string) (args, env []string)
}

// start runs a server until the test ends, and returns the server's address, host:port.
func (s server) start(t testing.TB) (address string) {
	t.Helper()
	path, logs := s.build(t), t.TempDir()
	for n := range tries {
		address, p, err := s.listen(t.Context(), path, filepath.Join(logs, fmt.Sprintf("%s-%d.log", s.name, n)))
		if errors.Is(err, errTaken) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			p.Kill()
			if t.Failed() {
				t.Logf("the end of what %s has written:\n%s", s.name, p.Log())
			}
		})
		return address
	}
	t.Fatalf("%s: %d free ports were taken before it listened", s.name, tries)
	return ""
}

// listen starts the server on a free port. It returns errTaken if another process takes the port first.
func (s server) listen(ctx context.Context, path, log string) (string, *controlplane.Process, error) {
	l, err := controlplane.Listen()
	if err != nil {
		return "", nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", nil, err
	}
	args, env := s.command(address)
	p, err := controlplane.StartProcess(s.name, log, env, path, args...)
	if err != nil {
		return "", nil, err
	}
	if err := s.answers(ctx, address, p); err != nil {
		p.Kill()
		if strings.Contains(p.Log(), "address already in use") {
			err = errTaken
		}
		return "", nil, err
	}
	return address, p, nil
}

func (s server) answers(ctx context.Context, address string, p *controlplane.Process) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// Another process may have taken the port and never answer, so requests have a timeout.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+s.ready, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err == nil {
			answer.Body.Close()
		}
		if exited := p.Exited(); exited != nil { // the answer came from another process on the port
			return exited
		}
		if err == nil && answer.StatusCode < http.StatusInternalServerError {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w\n%s", s.name, ctx.Err(), p.Log())
		}
	}
}

func (s server) build(t testing.TB) string {
	t.Helper()
	module, err := above(filepath.Join("test", "clients", s.name))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", s.name)
	cmd.Dir = module
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("building %s: %v\n%s", s.name, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func above(path string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		found := filepath.Join(dir, path)
		if _, err := os.Stat(found); err == nil {
			return found, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("%s not found: run inside the repository", path)
		}
		dir = parent
	}
}

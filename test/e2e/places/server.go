package places

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
	// patience is how long a server may take until it answers, on a busy machine too.
	patience = 2 * time.Minute
	// tries is how many ports may be taken by somebody else between the choice of one and the start of the server.
	tries = 5
)

// errTaken is the start of a server on a port that somebody else listens on.
var errTaken = errors.New("the port is taken")

// server is a program of test/clients, and what it is started with.
type server struct {
	name string
	// ready is a path that the server answers with less than a 500 when it is ready.
	ready string
	// command returns the arguments and the further environment of a server that listens on an address.
	command func(address string) (args, env []string)
}

// start runs a server until the test ends, and returns the address that it answers at, host:port.
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

// listen starts the server once, on a port that is free. It returns errTaken if somebody else was faster.
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

// answers waits until the server answers, and returns an error if it ends before.
func (s server) answers(ctx context.Context, address string, p *controlplane.Process) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// With a limit of its own, for somebody else who has the port and never answers.
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
		if exited := p.Exited(); exited != nil { // then somebody else has answered
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

// build returns the path of the program, which Go builds if its build cache has it not.
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

// above returns the absolute path of what is at a relative one, looked for from the current directory upwards.
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

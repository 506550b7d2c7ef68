package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestTightLoop kills or terminates syncs at random moments, in quick succession. It checks that each sync leaves only
// files that the next sync can use, that the store does not grow, and that only the first sync lists.
func TestTightLoop(t *testing.T) {
	t.Parallel()
	const lives, pods = 24, 300
	dir := t.TempDir()
	env := &testscript.Env{WorkDir: t.TempDir()}
	c := newCluster(env)
	defer c.close()
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if err := c.write("create", "pods", fmt.Sprintf("a/p%05d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	env.Vars = append(env.Vars, os.Environ()...)
	path := filepath.Join(dir, "store")
	first := startSync(t, env.Vars, c.kubeconfig, path)
	first.waitLive(t)
	first.terminate(t)
	wantFiles(t, dir, "store")
	size := sizeOf(t, path)
	c.server.ResetCounts()

	random := rand.New(rand.NewPCG(5, 6))
	for life := range lives {
		if err := c.write("update", "pods", fmt.Sprintf("a/p%05d", life),
			[]string{fmt.Sprintf("life=%d", life)}); err != nil {
			t.Fatal(err)
		}
		s := startSync(t, env.Vars, c.kubeconfig, path)
		if life%6 >= 4 {
			// Only a few runs wait until the sync is live. All other syncs end at any step: open, discovery, resume.
			s.waitLive(t)
		} else {
			time.Sleep(time.Duration(random.IntN(150_000)) * time.Microsecond)
		}
		if life%2 == 0 {
			s.kill()
		} else {
			s.terminate(t)
		}
		wantFiles(t, dir, "store", "store.sock", "store.sock.new", "store.opening", "store.new-*")
	}
	last := startSync(t, env.Vars, c.kubeconfig, path)
	last.waitLive(t)
	last.terminate(t)
	wantFiles(t, dir, "store")
	if n := c.server.Counts(gvr("pods")); n.Lists > 0 {
		t.Errorf("%d lists after the first; %+v", n.Lists, n)
	}
	t.Logf("the store has %d bytes after the first life, %d after %d", size, sizeOf(t, path), lives+2)
	if now := sizeOf(t, path); now > size+1<<20 {
		t.Errorf("the store has grown from %d to %d bytes", size, now)
	}
	out, err := larderCommand(env.Vars, "get", "pods", "-A", "--from", path, "-o", "name").Output()
	if n := bytes.Count(out, []byte("\n")); err != nil || n != pods {
		t.Errorf("%d pods in the end, %v", n, err)
	}
	out, err = larderCommand(env.Vars, "check", "--from", path).CombinedOutput()
	if err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
}

type running struct {
	cmd    *exec.Cmd
	done   chan struct{}
	live   chan struct{} // live is closed once the log of the process says "live"
	stderr bytes.Buffer  // stderr is the process's log; it may be read once done is closed
}

func larderCommand(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command("larder", args...) // PATH contains this program as larder, because of testscript.Main
	cmd.Env = env
	return cmd
}

func startSync(t *testing.T, env []string, kubeconfig, path string) *running {
	t.Helper()
	s := &running{cmd: larderCommand(env, "sync", "pods", "--kubeconfig", kubeconfig, "--store", path),
		done: make(chan struct{}), live: make(chan struct{})}
	out, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	go s.read(out)
	return s
}

func (s *running) read(out io.Reader) {
	defer close(s.done)
	reportLive := sync.OnceFunc(func() { close(s.live) })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s.stderr.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), " pods: live, ") {
			reportLive()
		}
	}
	_ = s.cmd.Wait() // the result is in ProcessState, which waitLive and terminate read
}

func (s *running) waitLive(t *testing.T) {
	t.Helper()
	select {
	case <-s.live:
	case <-s.done:
		t.Fatalf("sync ended: %v\n%s", s.cmd.ProcessState, s.stderr.String())
	case <-time.After(patience):
		s.kill()
		t.Fatalf("sync is not live after %v\n%s", patience, s.stderr.String())
	}
}

func (s *running) kill() {
	_ = s.cmd.Process.Kill() // the process may have ended
	<-s.done
}

// terminate sends SIGTERM to the sync process and waits for its end. The process must exit with 0, or die of the signal
// if it had not yet installed its handler.
func (s *running) terminate(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(patience):
		s.kill()
		t.Fatalf("sync did not end in %v\n%s", patience, s.stderr.String())
	}
	status, _ := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !s.cmd.ProcessState.Success() && !(status.Signaled() && status.Signal() == syscall.SIGTERM) {
		t.Errorf("sync: %v\n%s", s.cmd.ProcessState, s.stderr.String())
	}
}

func wantFiles(t *testing.T, dir string, patterns ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		matches := func(pattern string) bool {
			ok, err := filepath.Match(pattern, e.Name())
			return ok && err == nil
		}
		if !slices.ContainsFunc(patterns, matches) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

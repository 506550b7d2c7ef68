package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const progressEvery = 5 * time.Second

func compile(ctx context.Context, p program, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-ldflags", p.ldflags, "-o", filepath.Join(dir, p.name), p.pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w

	b := &progress{what: p.name + " " + p.version, start: time.Now(), last: "none yet"}
	var wg sync.WaitGroup
	wg.Go(func() { b.read(out) })
	done := make(chan struct{})
	wg.Go(func() { b.report(done) })
	err := cmd.Run()
	w.Close()
	close(done)
	wg.Wait()
	if err != nil {
		return fmt.Errorf("building %s %s: %w\n%s", p.name, p.version, err, b.tail.Bytes())
	}
	return nil
}

// progress parses the output of "go build -v": one line per downloaded module and per compiled package.
type progress struct {
	what  string
	start time.Time

	mu       sync.Mutex // mu guards the fields below
	packages int
	modules  int
	last     string
	tail     bytes.Buffer
}

func (b *progress) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		b.line(s.Text())
	}
	// A line too long for the scanner must not block the compiler.
	_, _ = io.Copy(io.Discard, r)
}

func (b *progress) line(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = line
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		b.modules++
	case !strings.ContainsAny(line, " :#"):
		b.packages++
	default: // an error, which is kept up to a bound
		if b.tail.Len() < 16<<10 {
			b.tail.WriteString(line + "\n")
		}
	}
}

func (b *progress) report(done <-chan struct{}) {
	t := time.NewTicker(progressEvery)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			b.mu.Lock()
			fmt.Fprintf(os.Stderr, "cluster: building %s: %s, %d modules downloaded, %d packages compiled, last: %s\n",
				b.what, time.Since(b.start).Round(time.Second), b.modules, b.packages, strings.TrimPrefix(b.last, "go: "))
			b.mu.Unlock()
		}
	}
}

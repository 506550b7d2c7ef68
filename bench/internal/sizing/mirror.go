package sizing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/served"
	"github.com/larder-dev/larder/internal/source"
)

// atMost is how long larder may take for what is waited for.
const atMost = 10 * time.Minute

// mirror is a running larder sync, whose memory is sampled.
type mirror struct {
	store string
	cmd   *exec.Cmd
	begun time.Time
	log   strings.Builder // read it once ended

	sampling sync.WaitGroup
	ended    chan error
	anon     atomic.Int64 // the peak
}

func startMirror(access cluster.Access, kind load.Kind, store string) (*mirror, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{served.LarderArgument, "sync", kind.GVR.Resource, "--store", store, "--server", access.Host,
		"--token", access.Token}
	if access.CA != nil {
		if err := os.WriteFile(store+".ca", access.CA, 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--certificate-authority", store+".ca")
	}
	m := &mirror{store: store, cmd: exec.Command(program, args...), ended: make(chan error, 1)}
	m.cmd.Stderr = &m.log
	m.begun = time.Now()
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	m.sampling.Go(func() {
		for ticker := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-ticker.C:
				m.anon.Store(max(m.anon.Load(), m.field("status", "RssAnon:")<<10))
			case <-done:
				ticker.Stop()
				return
			}
		}
	})
	go func() {
		err := m.cmd.Wait()
		close(done)
		m.ended <- err
	}()
	return m, nil
}

// field returns a number from a file of the process in /proc; 0 once it has ended.
func (m *mirror) field(file, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", m.cmd.Process.Pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n
		}
	}
	return 0
}

// written is how many bytes it has caused to be written to disks: none on a file system in memory.
func (m *mirror) written() int64 { return m.field("io", "write_bytes:") }

// live waits until the mirror is synced with the server and has so many objects of the benchmark.
func (m *mirror) live(ctx context.Context, objects int) (took, error) {
	err := m.await(ctx, func(c source.Collection) bool {
		return c.Live.Synced && c.Live.Source == "live" && c.Objects >= objects
	})
	return took{time.Since(m.begun), m.anon.Load()}, err
}

// reaches waits until the mirror has come as far as a resourceVersion.
func (m *mirror) reaches(ctx context.Context, rv uint64) error {
	return m.await(ctx, func(c source.Collection) bool {
		at, _ := strconv.ParseUint(c.ResourceVersion, 10, 64)
		return at >= rv
	})
}

func (m *mirror) await(ctx context.Context, holds func(source.Collection) bool) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for ctx.Err() == nil && len(m.ended) == 0 {
		if c, ok := m.collection(ctx); ok && holds(c) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.Join(ctx.Err(), errors.New("larder sync has not come as far as it should"))
}

// collection asks the mirror how far it is; false while there is no answer.
func (m *mirror) collection(ctx context.Context) (c source.Collection, ok bool) {
	socket, err := source.SocketPath(m.store)
	if err != nil {
		return c, false
	}
	client, _, err := source.Dial(ctx, socket)
	if err != nil {
		return c, false
	}
	defer client.Close() //nolint:errcheck // nothing was written
	status, err := client.Status(ctx)
	if err != nil || len(status.Collections) == 0 || status.Collections[0].Live == nil {
		return c, false
	}
	return status.Collections[0], true
}

// stop ends the mirror, which writes what it has not written, and waits for it.
func (m *mirror) stop() error {
	_ = m.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended, which Wait tells
	err := <-m.ended
	m.sampling.Wait()
	if err != nil {
		err = fmt.Errorf("larder sync: %w: %s", err, m.log.String())
	}
	return err
}

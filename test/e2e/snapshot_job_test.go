package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// jobEnv is an environment variable with the configuration of a child process. If it is set, the test binary only runs
// one job on a store or a snapshot.
const jobEnv = "LARDER_E2E_JOB"

type job struct {
	Do              string // one of save, restore, verify, compact and rekey
	Store, Snapshot string
	// Keys are the store's encryption keys, for seal.ParseKeys. Identity is the age identity that encrypts and decrypts
	// the snapshot.
	Keys, Identity string
	// Again is true if the child repeats the job until the child is killed. A restored store is removed before each
	// repetition.
	Again bool
	Log   string
}

type jobReport struct {
	Took        time.Duration
	Collections int
	Objects     int
	Problems    []string
	// Peak is the maximum of the process's resident memory, including mapped files. Anonymous is the process's memory
	// without mapped files at the end. Both are in bytes.
	Peak, Anonymous int64
}

func (r jobReport) String() string {
	return fmt.Sprintf("%d objects in %s; at most %s resident with mapped pages, %s of the process's own at the end",
		r.Objects, r.Took.Round(time.Millisecond), mib(r.Peak), mib(r.Anonymous))
}

func jobMain() int {
	var j job
	err := json.Unmarshal([]byte(os.Getenv(jobEnv)), &j)
	if err == nil {
		_, err = logTo(j.Log)
	}
	for err == nil {
		var r jobReport
		if r, err = j.do(context.Background()); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
		if !j.Again {
			break
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "job:", err)
		return 1
	}
	return 0
}

func (j job) do(ctx context.Context) (r jobReport, err error) {
	begun := time.Now()
	switch j.Do {
	case "save":
		err = j.save(ctx, &r)
	case "restore":
		err = j.restore(ctx, &r)
	case "verify":
		err = j.verify(ctx, &r)
	case "compact":
		err = j.rewrite(ctx, (*store.Store).Compact)
	case "rekey":
		err = j.rewrite(ctx, (*store.Store).Rekey)
	default:
		err = fmt.Errorf("unknown job %q", j.Do)
	}
	r.Took = time.Since(begun)
	if err != nil {
		return r, fmt.Errorf("%s: %w", j.Do, err)
	}
	r.Peak, r.Anonymous, err = memoryOf("self")
	return r, err
}

func (j job) options() (store.Options, error) {
	keys, err := seal.ParseKeys([]byte(j.Keys))
	return store.Options{LockTimeout: 10 * time.Second, Encryption: &seal.Encryption{Keys: keys}}, err
}

func (j job) save(ctx context.Context, r *jobReport) error {
	o, err := j.options()
	if err != nil {
		return err
	}
	id, err := age.ParseX25519Identity(j.Identity)
	if err != nil {
		return err
	}
	s, err := store.OpenContext(ctx, j.Store, o)
	if err != nil {
		return err
	}
	saved, err := snapshot.SaveStore(ctx, s, j.Snapshot, snapshot.SaveOptions{Recipients: []age.Recipient{id.Recipient()}})
	r.Collections, r.Objects = len(saved.Collections), saved.Objects
	return errors.Join(err, s.Close())
}

func (j job) restore(ctx context.Context, r *jobReport) error {
	o, err := j.options()
	if err != nil {
		return err
	}
	id, err := age.ParseX25519Identity(j.Identity)
	if err != nil {
		return err
	}
	if j.Again {
		if err := os.Remove(j.Store); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	restored, err := snapshot.Restore(ctx, j.Snapshot, j.Store, snapshot.RestoreOptions{
		Identities: []age.Identity{id}, Import: store.ImportOptions{Store: o},
	})
	r.Collections, r.Objects = len(restored.Collections), restored.Objects
	return err
}

func (j job) verify(ctx context.Context, r *jobReport) error {
	id, err := age.ParseX25519Identity(j.Identity)
	if err != nil {
		return err
	}
	f, err := snapshot.Open(j.Snapshot, snapshot.OpenOptions{Identities: []age.Identity{id}})
	if err != nil {
		return err
	}
	defer f.Close()
	report, err := f.Verify(ctx)
	r.Collections, r.Objects, r.Problems = report.Collections, report.Objects, report.Problems
	return err
}

func (j job) rewrite(ctx context.Context, how func(*store.Store, context.Context) (store.Compacted, error)) error {
	o, err := j.options()
	if err != nil {
		return err
	}
	s, err := store.OpenContext(ctx, j.Store, o)
	if err != nil {
		return err
	}
	_, err = how(s, ctx)
	return errors.Join(err, s.Close())
}

func (j job) start(t *testing.T, report func(jobReport)) *program {
	t.Helper()
	j.Log = filepath.Join(t.TempDir(), "job.log")
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	return startProgram(t, cmd, j.Log+".stderr", func(line []byte) {
		var r jobReport
		if json.Unmarshal(line, &r) == nil {
			report(r)
		}
	})
}

func (j job) once(t *testing.T) (r jobReport) {
	t.Helper()
	p := j.start(t, func(report jobReport) { r = report })
	<-p.done
	if p.err != nil {
		t.Fatalf("%s: %v\n%s", j.Do, p.err, p.stderr())
	}
	if len(r.Problems) > 0 {
		t.Fatalf("%s: %q", j.Do, r.Problems)
	}
	return r
}

func memoryOf(process string) (peak, anonymous int64, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", process, "status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(string(line), ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch {
		case err != nil:
		case name == "VmHWM":
			peak = kib << 10
		case name == "RssAnon":
			anonymous = kib << 10
		}
	}
	return peak, anonymous, nil
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

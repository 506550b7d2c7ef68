package seeded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"aead.dev/minisign"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/internal/meter"
	"github.com/larder-dev/larder/snapshot/remote"
)

// ChildArgument is the first argument of the process that runs one benchmark case.
const ChildArgument = "fleet"

const caseTimeout = 30 * time.Minute

// work is the driver's order to the process that runs a benchmark case.
type work struct {
	Fleet
	Access cluster.Access
	// Seed is the URL of the snapshot from which the stores start. Default: the stores list instead.
	Seed     string `json:",omitempty"`
	SignedBy minisign.PublicKey
	Dir      string
	// Profile is the prefix of the names of profiles. Default: no profiles.
	Profile string `json:",omitempty"`
}

// started has the measurements that the process returns to the driver. Slices have one value for each store. Times are
// in seconds since all stores were started.
type started struct {
	// Synced has the times of HasSynced with the policy Resumed. Committed has the times at which no dirty changes were
	// left after that.
	Synced, Committed []float64
	// Received has the bytes from the API server, and Seed the bytes of the snapshot.
	Received, Seed []float64
	// CPU is the processor time of the process in seconds, Written the bytes that it wrote to disk, and Anon the peak of
	// its RssAnon. All three are taken when the last store has committed.
	CPU, Written, Anon float64
}

type member struct {
	*subject.Running
	seed meter.Received
}

type fleet struct {
	work
	members []*member
	started started
}

// Child runs the stores of a case, answers with the measurements, and stops the stores.
func Child(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	f := &fleet{}
	if err := json.NewDecoder(in).Decode(&f.work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	run := func() error { return f.start(ctx) }
	if f.Profile == "" {
		err = run()
	} else {
		err = proc.Profile(f.Profile, run)
	}
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(out).Encode(f.started), f.check())
}

func (f *fleet) start(ctx context.Context) error {
	memory, err := proc.StartSampler()
	if err != nil {
		return err
	}
	defer memory.Stop()
	before, err := proc.CPU(os.Getpid())
	if err != nil {
		return err
	}
	f.members = make([]*member, f.Stores)
	s := &f.started
	s.Synced, s.Committed = make([]float64, f.Stores), make([]float64, f.Stores)
	begun := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range f.members {
		m := &member{}
		f.members[i] = m
		group.Go(func() (err error) {
			file := filepath.Join(f.Dir, fmt.Sprintf("%04d.db", i))
			if m.Running, err = subject.Start(context.WithoutCancel(ctx), f.options(m, file)); err != nil {
				return err
			}
			if _, err := m.AwaitSync(ctx); err != nil {
				return err
			}
			s.Synced[i] = time.Since(begun).Seconds()
			if _, err := m.AwaitCommit(ctx); err != nil {
				return err
			}
			s.Committed[i] = time.Since(begun).Seconds()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	after, err := proc.CPU(os.Getpid())
	written, writtenErr := proc.WrittenBytes()
	s.CPU, s.Written, s.Anon = (after - before).Seconds(), float64(written), float64(memory.Peak().Anon)
	for _, m := range f.members {
		s.Received = append(s.Received, float64(m.Network.Received()))
		s.Seed = append(s.Seed, float64(m.seed.Bytes()))
	}
	return errors.Join(err, writtenErr)
}

func (f *fleet) options(m *member, file string) subject.Options {
	o := subject.Options{
		Spec: subject.Spec{Library: subject.Larder, Residency: subject.None}, Kind: load.KindOf("pods"),
		Config: f.Access.Config(), File: file,
	}
	if f.Seed != "" {
		dial := m.seed.Count(&rest.Config{}).Dial
		o.Seed = remote.Seed(f.Seed, remote.Options{
			SignedBy: []minisign.PublicKey{f.SignedBy},
			Client:   &http.Client{Transport: &http.Transport{DialContext: dial}},
		})
	}
	return o
}

// check returns an error unless every store has all pods. The stores must have started from the seed if there is one,
// and otherwise by a list.
func (f *fleet) check() error {
	for i, m := range f.members {
		s := m.Larder.Status()
		if s.Objects != f.Pods {
			return fmt.Errorf("store %d has %d pods, want %d: %w", i, s.Objects, f.Pods, s.Err)
		}
		begun := s.Seed != nil && s.Seed.Err == nil
		if relists := s.Reflector.Relists; begun != (f.Seed != "") || len(relists) > 0 {
			return fmt.Errorf("store %d has not begun as it should: seed %+v, lists %v", i, s.Seed, relists)
		}
	}
	return nil
}

func (f *fleet) stop() error {
	var errs []error
	for _, m := range f.members {
		if m.Running != nil {
			errs = append(errs, m.Stop())
		}
	}
	return errors.Join(errs...)
}

package mirror

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/agekeys"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/schemes"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/remote"
)

type snapshotFlags struct {
	to             string
	every          command.AgeValue
	keep           remote.Keep
	recipientFiles []string
	signKey        string
	lease          string
}

// snapshotEvery and snapshotKeepLast are defaults of flags. On a busy resource kube-apiserver can resume a watch after
// two minutes, but not after three. Thirty snapshots cover an hour, enough for the slowest reader.
const (
	snapshotEvery    = 2 * time.Minute
	snapshotKeepLast = 30
)

func (s *snapshotFlags) add(f *pflag.FlagSet) {
	s.every = command.AgeValue(snapshotEvery)
	f.StringVar(&s.to, "snapshot-to", "",
		"put snapshots of the store into a `REPOSITORY` ("+schemes.URLs+"), with which others begin (--seed). They contain "+
			"Secrets only if they are encrypted")
	f.Var(&s.every, "snapshot-every",
		"with --snapshot-to, the `DURATION` between snapshots; a seed is useful while kube-apiserver has the history since: "+
			"75 s on a busy resource, more on a quiet one")
	f.IntVar(&s.keep.Last, "snapshot-keep-last", snapshotKeepLast,
		"with --snapshot-to, keep the newest `N` snapshots, and remove others that no flag keeps; 0 removes none")
	f.IntVar(&s.keep.Daily, "snapshot-keep-daily", 0,
		"with --snapshot-to, keep the newest snapshot of each of the last `N` days that have any")
	f.StringArrayVar(&s.recipientFiles, "snapshot-recipients-file", nil,
		"with --snapshot-to, encrypt to the public keys of age or ssh in `FILE`, one a line; may be given again")
	f.StringVar(&s.signKey, "snapshot-sign-key", "",
		"with --snapshot-to, sign with the secret key in `FILE`, of larder keygen --signing or minisign -G -W")
	f.StringVar(&s.lease, "snapshot-lease", "",
		"with --snapshot-to, of several syncs only the holder of this Lease, `NAMESPACE/NAME`, makes snapshots")
}

// check fails if a flag has no effect without another flag, or has a useless value.
func (s *snapshotFlags) check(f *pflag.FlagSet) error {
	if s.to == "" {
		for _, name := range []string{"to", "every", "keep-last", "keep-daily", "recipients-file", "sign-key", "lease"} {
			if f.Changed("snapshot-" + name) {
				return command.Usagef("--snapshot-%s needs --snapshot-to REPOSITORY", name)
			}
		}
		return nil
	}
	switch {
	case time.Duration(s.every) < time.Second:
		return command.Usagef("--snapshot-every has to be a second or more")
	case s.keep.Last < 0 || s.keep.Last == 1 || s.keep.Daily < 0:
		return command.Usagef("--snapshot-keep-last has to be 0 or at least 2, since somebody may read the one before, "+
			"and --snapshot-keep-daily 0 or more; they are %d and %d", s.keep.Last, s.keep.Daily)
	}
	ns, name, _ := strings.Cut(s.lease, "/")
	if s.lease != "" && (ns == "" || name == "" || strings.Contains(name, "/")) {
		return command.Usagef("--snapshot-lease has to be NAMESPACE/NAME, and not %q", s.lease)
	}
	return nil
}

type maker struct {
	flags      snapshotFlags
	repository *remote.Repository
	recipients []age.Recipient
	key        *minisign.PrivateKey
	// leases is the client of the Lease that elects the sync that makes snapshots; nil without a lease.
	leases  coordination.LeasesGetter
	metrics makerMetrics

	// contact, leftOut and cannotPrune are from the time of the last snapshot. contact is the mirror's last contact with
	// the server.
	contact     time.Time
	leftOut     []string
	cannotPrune bool
}

func (s *snapshotFlags) open(config *rest.Config) (*maker, error) {
	if s.to == "" {
		return nil, nil
	}
	mk := &maker{flags: *s, metrics: newMakerMetrics()}
	var err error
	if mk.repository, err = remote.NewRepository(s.to, schemes.Options()); err != nil {
		return nil, command.Usage(command.WithHint(fmt.Errorf("--snapshot-to: %w", err), "a repository is "+schemes.URLs))
	}
	if err = mk.repository.Prepare(); err != nil {
		return nil, command.Usage(command.WithHint(fmt.Errorf("--snapshot-to: %w", err), "a repository is "+schemes.URLs))
	}
	if mk.key, err = input.SigningKey("snapshot-sign-key", s.signKey); err != nil {
		return nil, err
	}
	for _, file := range s.recipientFiles {
		rs, err := agekeys.ReadRecipients(file)
		if err != nil {
			return nil, command.Usagef("--snapshot-recipients-file: %w", err)
		}
		mk.recipients = append(mk.recipients, rs...)
	}
	if s.lease != "" {
		if mk.leases, err = coordination.NewForConfig(config); err != nil {
			return nil, err
		}
	}
	return mk, nil
}

// leaseFor, leaseRenew and leaseRetry have the values of client-go's controllers.
const (
	leaseFor   = 15 * time.Second
	leaseRenew = 10 * time.Second
	leaseRetry = 2 * time.Second
)

// run makes snapshots until ctx ends. With a lease it makes them only while this process holds the lease.
func (mk *maker) run(ctx context.Context, m *mirror, path string) {
	leads := func() bool { return true }
	var electing sync.WaitGroup
	if mk.leases != nil {
		elector, err := mk.elector()
		if err != nil { // NewLeaderElector fails only for invalid constants
			klog.FromContext(ctx).Error(err, "No snapshots are made")
			return
		}
		leads = elector.IsLeader
		electing.Go(func() {
			for ctx.Err() == nil {
				elector.Run(ctx)
			}
		})
	}
	mk.contact = m.lastContact() // contacts before this process started do not count, because the store may be old
	wait := time.Second
	for sleep(ctx, wait) {
		wait = time.Second
		leading := leads()
		if mk.metrics.lead(leading, time.Duration(mk.flags.every)); !leading || !m.whole() {
			continue
		}
		made, err := mk.one(ctx, m, path)
		if err != nil && ctx.Err() == nil {
			mk.metrics.failures.Inc()
			klog.FromContext(ctx).Error(err, "No snapshot was made")
		}
		if !made && err == nil {
			continue
		}
		mk.prune(ctx)
		wait = time.Duration(mk.flags.every)
	}
	electing.Wait()
}

// elector takes part in the election of the one sync that makes snapshots. A leader may make one snapshot slightly
// after its lease has ended, which is harmless.
func (mk *maker) elector() (*leaderelection.LeaderElector, error) {
	ns, name, _ := strings.Cut(mk.flags.lease, "/")
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Client: mk.leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity()},
		},
		LeaseDuration: leaseFor, RenewDeadline: leaseRenew, RetryPeriod: leaseRetry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() { mk.metrics.lead(false, 0) },
		},
	})
}

func identity() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s_%d_%d", host, os.Getpid(), time.Now().UnixNano())
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// whole reports whether each mirrored collection is complete, or has an error in place of its first list.
func (m *mirror) whole() bool {
	for _, c := range m.mirrored() {
		if !c.Complete && c.Live.Error == "" {
			return false
		}
	}
	return true
}

// lastContact returns the latest contact of any collection with the server.
func (m *mirror) lastContact() (at time.Time) {
	for _, c := range m.mirrored() {
		if c.LastContact.After(at) {
			at = c.LastContact
		}
	}
	return at
}

// one makes and pushes one snapshot. It makes none if the mirror had no contact with the server since the last
// snapshot.
func (mk *maker) one(ctx context.Context, m *mirror, path string) (made bool, err error) {
	contact := m.lastContact()
	if !contact.After(mk.contact) {
		return false, nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".snapshot-*")
	if err != nil {
		return false, err
	}
	_ = os.Remove(f.Name()) // not every system can remove an open file; if this fails, the file is removed below
	defer func() {
		_ = f.Close() // Push only reads the file, so an error of closing it loses nothing
		_ = os.Remove(f.Name())
	}()
	saved, err := snapshot.SaveStoreTo(ctx, m.store, f, snapshot.SaveOptions{
		Recipients: mk.recipients, SigningKey: mk.key, Header: snapshot.Header{Larder: source.Version()},
	})
	if err != nil {
		return false, err
	}
	logger := klog.FromContext(ctx)
	if !slices.Equal(saved.LeftOut, mk.leftOut) {
		mk.leftOut = saved.LeftOut
		logger.Info("Not everything is in the snapshots", "leftOut", saved.LeftOut)
	}
	began := time.Now()
	name, err := mk.repository.Push(ctx, f)
	if err != nil {
		return false, err
	}
	mk.contact = contact
	mk.metrics.latest.SetToCurrentTime()
	mk.metrics.size.Set(float64(saved.Size))
	logger.V(1).Info("Made a snapshot", "name", name, "in", mk.repository.Name(), "objects", saved.Objects, "bytes",
		saved.Size, "took", time.Since(began).Round(time.Millisecond))
	return true, nil
}

// prune removes old snapshots from the repository. Of successive failures it logs only the first.
func (mk *maker) prune(ctx context.Context) {
	if mk.flags.keep.Last == 0 {
		return
	}
	logger := klog.FromContext(ctx)
	kept, removed, err := mk.repository.Prune(ctx, mk.flags.keep, false)
	mk.metrics.kept.Set(float64(len(kept)))
	for _, it := range removed {
		logger.V(1).Info("Removed a snapshot", "name", it.Name)
	}
	if err != nil && !mk.cannotPrune && ctx.Err() == nil {
		logger.Error(err, "Old snapshots are not removed", "hint", "--snapshot-keep-last 0 keeps all")
	}
	mk.cannotPrune = err != nil
}

type makerMetrics struct {
	interval, latest, size, kept prometheus.Gauge
	failures                     prometheus.Counter
}

func newMakerMetrics() makerMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return makerMetrics{
		interval: gauge("larder_snapshot_interval_seconds",
			"How long after a snapshot the next one is made; 0 while another process has the Lease."),
		latest: gauge("larder_snapshot_last_success_timestamp_seconds",
			"When a snapshot was last put into the repository; 0 if this process has not yet done so, or has lost the Lease."),
		size: gauge("larder_snapshot_size_bytes", "Size of that snapshot."),
		kept: gauge("larder_snapshots_kept", "Snapshots in the repository, once old ones were removed."),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "larder_snapshot_failures_total",
			Help: "Number of snapshots that could not be made or put into the repository."}),
	}
}

// lead sets the interval metric if this process makes snapshots (leading). Otherwise it sets all gauges to 0,
// because their values would be outdated.
func (m makerMetrics) lead(leading bool, every time.Duration) {
	if leading {
		m.interval.Set(every.Seconds())
		return
	}
	for _, g := range []prometheus.Gauge{m.interval, m.latest, m.size, m.kept} {
		g.Set(0)
	}
}

func (m makerMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.interval, m.latest, m.size, m.kept, m.failures}
}

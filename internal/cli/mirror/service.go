package mirror

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/serving"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/internal/endpoint"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/metrics"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/remote"
)

type service struct {
	io       command.IO
	log      *plainLog
	planner  planner
	settings settings
	// configured says that the settings come from a configuration file and not from arguments.
	configured bool
	// keepUnnamed keeps stored collections that this sync does not mirror.
	keepUnnamed bool
	serving     serving.Flags

	metrics  *metrics.Metrics
	scraped  func() http.Handler // scraped returns the handler of /metrics, created once, after maker is set
	endpoint *endpoint.Server    // endpoint serves health and metrics; nil without --listen
	listener net.Listener        // listener listens on the address of --listen; nil without that flag
	port     *serving.Port       // port is the served Kubernetes API; nil if no objects are served
	seed     snapshot.Seed       // seed is the snapshot that fills a new store; nil without --seed
	// seedCluster is the required cluster ID of the seed; "" means the cluster of the API server.
	seedCluster string
	maker       *maker // maker makes snapshots at intervals; nil if none are made
	notify      *notifier

	mirror atomic.Pointer[mirror] // mirror is nil until the store is open
}

func newService(s command.IO, l *plainLog, pl planner, set settings) *service {
	m := metrics.New()
	pl.config = m.CountReceived(pl.config)
	sv := &service{io: s, log: l, planner: pl, settings: set, metrics: m, notify: newNotifier()}
	sv.scraped = sync.OnceValue(sv.newMetrics)
	return sv
}

// listen binds the ports before anything else, so that a sync whose port is in use does not start.
func (sv *service) listen(ctx context.Context) error {
	if sv.serving.Address != "" {
		o := serving.Options{Flags: sv.serving, Upstream: sv.planner.config, Directory: sv.settings.store + ".tls"}
		if o.Kubeconfig == "" {
			o.Kubeconfig = sv.settings.store + ".kubeconfig"
		}
		p, err := serving.Listen(ctx, o)
		if err != nil {
			return err
		}
		sv.port = p
	}
	if sv.settings.listen == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", sv.settings.listen)
	if err != nil {
		return command.WithHint(fmt.Errorf("health and metrics cannot be served at %s: %w", sv.settings.listen, err),
			"name another address, or end what has this one")
	}
	sv.listener = l
	sv.endpoint = endpoint.New(endpoint.Options{Ready: sv.readiness, Metrics: sv.plainMetrics()})
	sv.endpoint.Start(l)
	what := "Serving /healthz, /readyz and /metrics"
	if sv.metricsURL() != "" {
		what = "Serving /healthz and /readyz"
	}
	klog.FromContext(ctx).Info(what, "address", l.Addr().String())
	return nil
}

func (sv *service) open(ctx context.Context, logger logr.Logger) error {
	mo := memberOptions{
		persistSecrets: sv.settings.persistSecrets, keepChanges: keepFor(sv.settings.keepChanges, sv.serving),
		configured: sv.configured, servesSecrets: sv.serving.Secrets,
		observer: sv.metrics, history: historyOf(sv.serving), schemas: sv.settings.schemas,
		seed: sv.seed, seedCluster: sv.seedCluster,
	}
	m, err := openMirror(ctx, sv.planner, sv.settings, mo, logger)
	if err != nil {
		return input.KeyError(sv.settings.store, err, sv.settings.keyBy)
	}
	if sv.port != nil {
		m.memory = sv.port.Memory
	}
	m.note = sv.log.note
	m.follower.now, m.follower.drop.keep = sv.io.Now, sv.keepUnnamed
	sv.mirror.Store(m)
	sv.warnOfSecrets(ctx, m, mo)
	return nil
}

func (sv *service) run(ctx context.Context) (err error) {
	closeServer := sv.serve(klog.FromContext(ctx))
	defer func() { err = errors.Join(err, closeServer()) }()
	m := sv.mirror.Load()
	if err := sv.serveObjects(ctx, m); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { show(running, sv.io, sv.log, m.mirrored) })
	wg.Go(func() { m.scrub(running) })
	if sv.maker != nil {
		wg.Go(func() { sv.maker.run(running, m, sv.settings.store) })
	}
	sv.notify.ready()
	err = m.run(ctx)
	sv.notify.stopping()
	stop()
	wg.Wait()
	left := m.mirrored()
	sv.log.finish(sv.io.Now(), stopped(left))
	sv.noteUnlisted(left)
	return err
}

func (sv *service) noteUnlisted(left []source.Collection) {
	var unlisted []string
	objects := 0
	for _, c := range left {
		if !c.Complete && !input.Forbidden(c) {
			unlisted, objects = append(unlisted, input.Label(c)), objects+c.Objects
		}
	}
	if len(unlisted) == 0 {
		return
	}
	sv.log.note(fmt.Sprintf(
		"stopped before the first list of %s had ended: %s has %s; the next start lists again",
		input.Some(unlisted), sv.settings.store, command.CountedObjects(objects)))
}

func (sv *service) noteNothingMirrored() {
	left := sv.settings.store + " holds what it held"
	if input.Missing(sv.settings.store) {
		left = "no store was made at " + sv.settings.store
	}
	sv.log.note("stopped before anything was mirrored: " + left)
}

// serve answers the requests of reading commands on the store's socket. If the socket cannot be created, the sync runs
// without a socket.
func (sv *service) serve(logger logr.Logger) (stop func() error) {
	path := sv.settings.store
	l, err := source.Listen(path)
	if err != nil {
		logger.Error(err, "No socket: get, status and check do not work on this store until this sync has stopped", "store",
			path)
		return func() error { return nil }
	}
	who := source.Sync{PID: os.Getpid(), Version: source.Version(), Started: time.Now().UTC().Truncate(time.Second)}
	if sv.listener != nil {
		who.Listen, who.Metrics = sv.listener.Addr().String(), sv.metricsURL()
	}
	server := source.NewServer(sv.mirror.Load(), who)
	server.Start(l)
	return func() error {
		if err := server.Close(); err != nil { // only logged, since all mirrored objects are in the file
			logger.Error(err, "The socket could not be removed, or did not end in order; the next sync replaces it", "store",
				path)
		}
		return nil
	}
}

// historyBytes is the size in bytes of the changes that each informer keeps in memory for watches of the served API.
const historyBytes = 8 << 20

// servedChanges is how long the file keeps changes for watches that resume after a restart: longer than any API server
// keeps changes.
const servedChanges = time.Hour

// keepFor returns how long the file keeps changes: the requested time, and at least servedChanges if objects are
// served.
func keepFor(asked time.Duration, f serving.Flags) time.Duration {
	if f.Address == "" {
		return asked
	}
	return max(asked, servedChanges)
}

func historyOf(f serving.Flags) int {
	if f.Address == "" {
		return 0
	}
	return historyBytes
}

func (sv *service) serveObjects(ctx context.Context, m *mirror) error {
	if sv.port == nil {
		return nil
	}
	served := serving.Served{Facts: m.store, Notes: m.notes, Metrics: sv.scraped(), Status: m.Status, Log: m}
	if sv.maker != nil {
		if dir, ok := sv.maker.repository.Directory(); ok {
			served.Snapshots = remote.Handler(dir)
		}
	}
	served.Source = serve.Mirror(m.store, func() (mirrored []entry.Identity) {
		for _, mb := range m.all() {
			if mb.informer.Status().Persistent {
				mirrored = append(mirrored, mb.identity)
			}
		}
		return mirrored
	})
	if err := sv.port.Serve(ctx, served); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Serving objects, and a page for people that takes the token in the kubeconfig",
		"address", sv.port.URL, "page", sv.port.Page(), "kubeconfig", sv.port.Kubeconfig())
	return nil
}

func (sv *service) close() (err error) {
	if sv.endpoint != nil {
		err = sv.endpoint.Close()
	}
	if sv.port != nil {
		err = errors.Join(err, sv.port.Close())
	}
	if m := sv.mirror.Load(); m != nil {
		err = errors.Join(err, m.Close())
	}
	return err
}

// warnOfSecrets logs the resources whose objects are only in memory. It also logs objects of these resources that an
// earlier sync has left in the file.
func (sv *service) warnOfSecrets(ctx context.Context, m *mirror, mo memberOptions) {
	what := "stored"
	if sv.port != nil {
		what = "stored or served"
	}
	for _, mb := range m.all() {
		if mb.informer.Status().Persistent {
			continue
		}
		sv.log.note(fmt.Sprintf("%s: kept in memory only, nothing of them is %s; %s", mb.resource, what, mo.howStored()))
		status, err := m.File.Status(ctx)
		if err != nil {
			continue
		}
		for _, c := range status.Collections {
			if c.GVR() == mb.identity.GroupVersionResource {
				sv.log.note(fmt.Sprintf(
					"%s: %s still holds %d that an earlier sync has stored; remove the file to be rid of them",
					mb.resource, sv.settings.store, c.Objects))
			}
		}
	}
}

// readiness returns the checks of /readyz: the store must be open and intact, and each collection must be ready in the
// configured sense. A forbidden collection is checked only if its resource was requested by name.
func (sv *service) readiness() []endpoint.Check {
	m := sv.mirror.Load()
	if m == nil {
		return []endpoint.Check{{Name: "store", Problem: "it is being opened"}}
	}
	var all []endpoint.Check
	if err := m.store.Err(); err != nil {
		all = append(all, endpoint.Check{Name: "store", Problem: err.Error()})
	}
	for _, c := range m.mirrored() {
		if input.Forbidden(c) && c.Live.Optional {
			continue
		}
		all = append(all, endpoint.Check{Name: input.Label(c), Problem: notReady(c, sv.settings.ready)})
	}
	if len(all) == 0 && len(m.all()) > 0 {
		return []endpoint.Check{{Name: "rights", Problem: "the API server forbids all resources"}}
	}
	return all
}

// notReady returns why a collection is not ready in the given sense; "" if it is ready.
func notReady(c source.Collection, ready config.Ready) string {
	switch {
	case !c.Complete && input.Forbidden(c):
		return "the API server forbids it"
	case !c.Complete:
		return "waiting for the first list"
	case c.Live.Source == string(informer.Live) && !c.Live.Synced:
		return "the first list is not in the file yet"
	case ready == config.ReadyResumed && !c.Live.Synced:
		return "the server has not been caught up with yet"
	}
	return ""
}

func (sv *service) newMetrics() http.Handler {
	all := []prometheus.Collector{sv.metrics}
	if sv.maker != nil {
		all = append(all, sv.maker.metrics.all()...)
	}
	if sv.port != nil {
		all = append(all, memoryMetrics(sv.port.Memory)...)
	}
	return endpoint.Metrics(all...)
}

func memoryMetrics(m *serve.Memory) []prometheus.Collector {
	gauge := func(name, help string, value func(serve.MemoryUsage) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value(m.Usage())) })
	}
	return []prometheus.Collector{
		gauge("larder_serve_memory_bytes", "Budget of memory for answers, as --serve-memory sets it.",
			func(u serve.MemoryUsage) int64 { return u.Size }),
		gauge("larder_serve_memory_used_bytes", "Memory of that budget that answers hold.",
			func(u serve.MemoryUsage) int64 { return u.Used }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "larder_serve_memory_refused_total",
			Help: "Requests that were refused with 429 since that budget, or their user's half of it, was spent."},
			func() float64 { return float64(m.Usage().Refused) }),
	}
}

// plainMetrics returns the handler of /metrics on the health listener, which does not authenticate clients. If the sync
// also serves objects, clients on other machines get an error that refers to the authenticated port.
func (sv *service) plainMetrics() http.Handler {
	if sv.metricsURL() == "" {
		return sv.scraped()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "metrics are at the address of --serve, for those who may get the path /metrics", http.StatusNotFound)
	})
}

// metricsURL returns the URL at which the authenticated port serves metrics; "" if the health listener serves them.
func (sv *service) metricsURL() string {
	if sv.port == nil || sv.listener == nil {
		return ""
	}
	if a, ok := sv.listener.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		return ""
	}
	return sv.port.URL + "/metrics"
}

// notifier reports the state of the sync to systemd (Type=notify): it sends datagrams to the socket named by
// $NOTIFY_SOCKET, see sd_notify(3). Without that variable it does nothing.
type notifier struct{ socket string }

func newNotifier() *notifier { return &notifier{os.Getenv("NOTIFY_SOCKET")} }

func (n *notifier) ready()    { n.send("READY=1") }
func (n *notifier) stopping() { n.send("STOPPING=1") }

// send sends a state, such as READY=1, to systemd. It ignores errors, because the service works without notifications.
func (n *notifier) send(state string) {
	if n.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_, _ = c.Write([]byte(state))
}

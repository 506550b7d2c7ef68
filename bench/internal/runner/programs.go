package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/report"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/factory"
	"github.com/larder-dev/larder/store"
)

// Program is a program with an informer factory: a typed factory for up to eight kinds, which are built in, or a
// dynamic factory for more, which are custom. Each kind has Objects objects, of which Changes change before each start.
// QPS is the client's rate limit: -1 means no limit, and 0 measures each of Limits.
type Program struct {
	Kinds, Objects, Changes int
	QPS                     float32
}

func (p Program) custom() bool { return p.Kinds > len(builtIn) }

// Limits are the rate limits of the programs' clients, in requests a second; -1 is none. Burst is twice the limit, as
// in client-go's default.
var Limits = []float32{5, 20, 50, -1}

const (
	// mostLimited is the largest number of kinds that is measured with a rate limit: starts with more kinds take minutes.
	mostLimited = 50
	// once is the number of measured first starts and reconnects. It is small: their time is not reported, and their
	// requests and bytes hardly vary.
	once = 3
	// reconnected is how long requests are counted after a reconnect. It is longer than client-go's backoff.
	reconnected = 5 * time.Second
)

// Programs measures programs' first starts, restarts and reconnects, with client-go's factory and with Larder's over
// its file. The figures are the time to HasSynced of all informers, and requests, received bytes and network
// connections until then. A reconnect has no time. The two factories take turns in one process. Programs writes a table
// of medians.
func Programs(ctx context.Context, all []Program, dir, command string, out io.Writer) (err error) {
	c, err := cluster.StartReal(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	config := rest.CopyConfig(c.Access().Config())
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	p := &programs{config: config, world: programWorld{client: client}, dir: dir}
	const costs = "requests, KB, connections"
	fmt.Fprintf(out, `Programs with a factory to HasSynced, policy Resumed; restarts: medians of %d, others of %d (%s):

| kinds × objects | changed, of each | QPS | | client-go | %s | Larder | %s | |
|---|---|---|---|---|---|---|---|---|
`, startRuns, once, "`"+command+"`", costs, costs)
	for _, one := range all {
		if err := p.world.fill(ctx, one); err != nil {
			return err
		}
		for _, qps := range Limits {
			if one.QPS != 0 && one.QPS != qps || one.Kinds > mostLimited && qps > 0 {
				continue
			}
			if err := p.rows(ctx, one, qps, out); err != nil {
				return fmt.Errorf("%+v at %v requests a second: %w", one, qps, err)
			}
		}
	}
	return nil
}

type programs struct {
	config *rest.Config
	world  programWorld
	dir    string
}

// rows writes the rows of a program: its restarts, and, without a limit, its first starts and reconnects.
func (p *programs) rows(ctx context.Context, one Program, qps float32, out io.Writer) error {
	file := filepath.Join(p.dir, "program.db")
	defer func() { _ = os.Remove(file) }()
	limit := "none"
	if qps > 0 {
		limit = fmt.Sprint(qps)
	} else if err := p.row(ctx, one, qps, "first start", once, out, limit, func() string {
		_ = os.Remove(file)
		return file
	}); err != nil {
		return err
	}
	if _, err := p.larder(ctx, one, -1, file, false); err != nil { // a first start, which lists and fills the store
		return err
	}
	if err := p.row(ctx, one, qps, "restart", startRuns, out, limit, func() string { return file }); err != nil {
		return err
	}
	if qps > 0 {
		return nil
	}
	return p.row(ctx, one, qps, "reconnect", once, out, limit, func() string { return file })
}

// row measures one phase of a program several times, and writes its row. file returns the file of the next start.
func (p *programs) row(
	ctx context.Context, one Program, qps float32, phase string, runs int, out io.Writer, limit string, file func() string,
) error {
	var seen [2][]cost
	for range runs {
		if err := p.world.change(ctx, one); err != nil {
			return err
		}
		for i, start := range []func() (cost, error){
			func() (cost, error) { return p.clientGo(ctx, one, qps, phase == "reconnect") },
			func() (cost, error) { return p.larder(ctx, one, qps, file(), phase == "reconnect") },
		} {
			time.Sleep(pause)
			c, err := start()
			if err != nil {
				return err
			}
			seen[i] = append(seen[i], c)
		}
	}
	row := []string{fmt.Sprintf("| %d × %d", one.Kinds, one.Objects), fmt.Sprint(one.Changes), limit, phase}
	var medians []float64
	for _, costs := range seen {
		took := summary(costs, func(c cost) float64 { return c.took.Seconds() })
		medians = append(medians, took.Median)
		times := ""
		if took.Median > 0 {
			times = fmt.Sprintf("%.0f ms (%.0f – %.0f)", took.Median*1e3, took.Min*1e3, took.Max*1e3)
		}
		row = append(row, times, fmt.Sprintf("%.0f, %.1f, %.0f",
			summary(costs, func(c cost) float64 { return float64(c.requests) }).Median,
			summary(costs, func(c cost) float64 { return float64(c.received) / 1000 }).Median,
			summary(costs, func(c cost) float64 { return float64(c.connections) }).Median))
	}
	ratio := ""
	if medians[0] > 0 {
		ratio = fmt.Sprintf("%.2f×", medians[1]/medians[0])
	}
	_, err := fmt.Fprintln(out, strings.Join(append(row, ratio), " | ")+" |")
	return err
}

func summary(costs []cost, of func(cost) float64) report.Summary {
	var all []float64
	for _, c := range costs {
		all = append(all, of(c))
	}
	return report.Summarize(all)
}

type cost struct {
	took                            time.Duration // time to HasSynced; zero for a reconnect
	requests, received, connections int64
}

// link is one program's connection to the server, with its own byte counter.
type link struct {
	network  *subject.Network
	requests atomic.Int64
	// config is the client configuration. All clients made from config share the network connections.
	config *rest.Config
	close  func()
}

func (p *programs) link(qps float32) (*link, error) {
	l := &link{network: subject.NewNetwork()}
	client, err := rest.HTTPClientFor(l.network.Wrap(p.config))
	if err != nil {
		return nil, err
	}
	l.close = client.CloseIdleConnections
	l.config = &rest.Config{Host: p.config.Host, Transport: counting{client.Transport, &l.requests}, QPS: qps,
		Burst: int(2 * qps)}
	return l, nil
}

func (l *link) typed() *rest.Config {
	config := rest.CopyConfig(l.config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

type counting struct {
	http.RoundTripper
	n *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// starter is the common part of client-go's and Larder's factories: start, sync and shutdown.
type starter struct {
	informer func(gvr schema.GroupVersionResource) (cache.SharedIndexInformer, error)
	start    func(stop <-chan struct{})
	shutdown func()
}

func typedStarter(f informers.SharedInformerFactory) starter {
	return starter{func(gvr schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
		i, err := f.ForResource(gvr)
		if err != nil {
			return nil, err
		}
		return i.Informer(), nil
	}, f.Start, f.Shutdown}
}

func dynamicStarter(f dynamicinformer.DynamicSharedInformerFactory) starter {
	return starter{func(gvr schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
		return f.ForResource(gvr).Informer(), nil
	}, f.Start, f.Shutdown}
}

func (p *programs) clientGo(ctx context.Context, one Program, qps float32, reconnect bool) (cost, error) {
	l, err := p.link(qps)
	if err != nil {
		return cost{}, err
	}
	defer l.close()
	begun := time.Now()
	if one.custom() {
		client, err := dynamic.NewForConfig(l.config)
		if err != nil {
			return cost{}, err
		}
		f := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, programNamespace, nil)
		return dynamicStarter(f).run(ctx, one, l, begun, reconnect)
	}
	set, err := kubernetes.NewForConfig(l.typed())
	if err != nil {
		return cost{}, err
	}
	f := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithNamespace(programNamespace))
	return typedStarter(f).run(ctx, one, l, begun, reconnect)
}

func (p *programs) larder(
	ctx context.Context, one Program, qps float32, file string, reconnect bool,
) (_ cost, err error) {
	l, err := p.link(qps)
	if err != nil {
		return cost{}, err
	}
	defer l.close()
	quiet := logr.Discard()
	begun := time.Now()
	st, err := store.Open(file, store.Options{Logger: &quiet})
	if err != nil {
		return cost{}, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	o := factory.Options{Namespace: programNamespace,
		Informer: informer.Options{Store: st, PersistSecrets: true, Logger: &quiet}}
	if one.custom() {
		client, err := dynamic.NewForConfig(l.config)
		if err != nil {
			return cost{}, err
		}
		o.Config = l.config
		return dynamicStarter(factory.NewDynamicSharedInformerFactory(client, 0, o)).run(ctx, one, l, begun, reconnect)
	}
	set, err := kubernetes.NewForConfig(l.typed())
	if err != nil {
		return cost{}, err
	}
	var types []runtime.Object
	for _, k := range programKinds(one.Kinds) {
		example, err := scheme.Scheme.New(k.GroupVersion().WithKind(k.kind))
		if err != nil {
			return cost{}, err
		}
		types = append(types, example)
	}
	f, err := factory.NewSharedInformerFactory(set, 0, o, types...)
	if err != nil {
		return cost{}, err
	}
	return typedStarter(f).run(ctx, one, l, begun, reconnect)
}

// run starts the informers of a factory, waits until all have synced, and stops them. With reconnect it cuts the
// network after the sync, and returns the cost after the cut instead.
func (f starter) run(ctx context.Context, one Program, l *link, begun time.Time, reconnect bool) (cost, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer f.shutdown()
	defer cancel()
	var done []cache.InformerSynced
	for _, k := range programKinds(one.Kinds) {
		inf, err := f.informer(k.GroupVersionResource)
		if err != nil {
			return cost{}, err
		}
		done = append(done, inf.HasSynced)
	}
	f.start(ctx.Done())
	for _, d := range done {
		for !d() {
			if ctx.Err() != nil {
				return cost{}, cmp.Or(context.Cause(ctx), ctx.Err())
			}
			time.Sleep(time.Millisecond)
		}
	}
	c := cost{time.Since(begun), l.requests.Load(), l.network.Received(), l.network.Dialed()}
	if !reconnect {
		return c, nil
	}
	time.Sleep(reconnected) // long enough for all watches to be open
	before := cost{0, l.requests.Load(), l.network.Received(), l.network.Dialed()}
	l.network.Cut()
	l.network.Release()
	time.Sleep(reconnected)
	return cost{0, l.requests.Load() - before.requests, l.network.Received() - before.received,
		l.network.Dialed() - before.connections}, nil
}

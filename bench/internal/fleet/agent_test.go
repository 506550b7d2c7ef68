package fleet

import (
	"context"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/seed"
)

// agent is a simulated informer. It runs until ctx ends, and calls level whenever its state equals the server's.
type agent func(ctx context.Context, level func())

// client is a kind of agent, such as client-go's reflector. prepare is called at the time when an agent last ran. For
// agents that never ran, it is called when their seed snapshot is taken.
type client struct {
	Name    string
	prepare func(s *server) agent
}

var (
	larder      = client{"Larder", func(s *server) agent { return newLarder(s, 0) }}
	spreading   = client{"Larder, RelistSpread 1 h", func(s *server) agent { return newLarder(s, time.Hour) }}
	seeded      = client{"Larder, with a seed", newSeeded}
	clientGo    = client{"client-go", func(s *server) agent { return newClientGo(s, false) }}
	clientGoGet = client{"client-go, LIST", func(s *server) agent { return newClientGo(s, true) }}
)

func newClientGo(s *server, list bool) agent {
	return func(ctx context.Context, level func()) {
		l := link{s: s, watching: level}
		var lw cache.ListerWatcher = &cache.ListWatch{
			ListWithContextFunc: l.ListWithContext, WatchFuncWithContext: l.WatchWithContext,
		}
		if list {
			lw = unlisting{lw}
		}
		o := cache.ReflectorOptions{Name: "agent"}
		cache.NewReflectorWithOptions(lw, &metav1.PartialObjectMetadata{}, forgetful{level}, o).RunWithContext(ctx)
	}
}

// forgetful is a cache.ReflectorStore that stores nothing: the model counts only the server's costs.
type forgetful struct{ level func() }

func (forgetful) Add(any) error    { return nil }
func (forgetful) Update(any) error { return nil }
func (forgetful) Delete(any) error { return nil }
func (forgetful) Resync() error    { return nil }
func (f forgetful) Replace([]any, string) error {
	f.level()
	return nil
}

// newLarder returns an agent with Larder's reflector. The agent's stored state is the server's current state, or empty
// if the agent starts for the first time. spread is the value of Options.RelistSpread.
func newLarder(s *server, spread time.Duration) agent {
	held := sink{}
	if !s.sc.first {
		held.cp = s.checkpoint()
	}
	return runLarder(s, held, reflector.Options{RelistSpread: spread})
}

// newSeeded returns an agent that runs Larder's reflector without stored state. The agent's seed is a snapshot of the
// server's current state.
func newSeeded(s *server) agent {
	return runLarder(s, sink{}, reflector.Options{Seed: s.seed(s.now())})
}

func runLarder(s *server, held sink, o reflector.Options) agent {
	return func(ctx context.Context, level func()) {
		l := link{s: s, watching: func() {}}
		held.level = level
		var verified atomic.Bool
		// An informer requests the cluster id at every connect.
		o.Verify = func(ctx context.Context, _ time.Time) (reflector.Reason, error) {
			err := l.get(ctx)
			if err == nil {
				verified.Store(true)
			}
			return "", err
		}
		if open := o.Seed; open != nil {
			o.Seed = func(ctx context.Context, after time.Time) (*seed.Seed, error) {
				if !verified.Load() {
					return nil, reflector.ErrSeedLater // the seed's cluster is not verified yet
				}
				return open(ctx, after)
			}
		}
		_ = reflector.New(l, held, o).Run(ctx)
	}
}

// checkpoint returns the stored checkpoint (resourceVersion and cluster) of an agent that has the server's current
// state.
func (s *server) checkpoint() reflector.Checkpoint {
	at := s.now()
	made := s.changes(at)
	cp := reflector.Checkpoint{ResourceVersion: strconv.FormatInt(s.rv(at), 10)}
	for change := max(made-4, 1); change <= made; change++ {
		obj := s.changed(change)
		cp.Newest = append(cp.Newest, entry.ObjectRef{
			Key: cache.MetaObjectToName(obj).String(), UID: string(obj.UID), ResourceVersion: obj.ResourceVersion,
		})
	}
	return cp
}

// seed returns a function for reflector.Options.Seed. The seed is a snapshot of the server's state at that time, as
// from a CDN: the function answers at once, without a request to the server.
func (s *server) seed(at time.Duration) func(context.Context, time.Time) (*seed.Seed, error) {
	kind := &entry.UndecodedKind{Type: reflect.TypeFor[*metav1.PartialObjectMetadata]()}
	return func(context.Context, time.Time) (*seed.Seed, error) {
		return &seed.Seed{
			Source: "cdn", Taken: s.began.Add(at), ResourceVersion: strconv.FormatInt(s.rv(at), 10),
			Objects: func(_ context.Context, fn func(*entry.Undecoded) error) error {
				for _, obj := range s.objects(at, 0, kept) {
					if err := fn(entry.NewUndecoded(kind, metav1.TypeMeta{}, obj.ObjectMeta, "", nil)); err != nil {
						return err
					}
				}
				return nil
			},
			Close: func() error { return nil },
		}, nil
	}
}

// sink is a reflector.Sink that discards objects. It keeps only the checkpoint from which a restarted agent resumes.
type sink struct {
	cp    reflector.Checkpoint
	level func()
}

func (s sink) Checkpoint(context.Context) (reflector.Checkpoint, error) { return s.cp, nil }

func (s sink) Synced(context.Context) error {
	s.level()
	return nil
}

func (sink) Known(_ context.Context, refs []entry.ObjectRef) ([]entry.ObjectRef, error) {
	return refs, nil
}

func (sink) Event(context.Context, watch.EventType, runtime.Object, string) error { return nil }
func (sink) Bookmark(context.Context, string) error                               { return nil }
func (sink) BeginReplace(context.Context, reflector.Reason) error                 { return nil }
func (sink) Page(context.Context, []runtime.Object) error                         { return nil }
func (sink) EndReplace(context.Context, string) error                             { return nil }
func (sink) AbortReplace(context.Context) error                                   { return nil }
func (sink) MustList(context.Context, reflector.Reason) error                     { return nil }

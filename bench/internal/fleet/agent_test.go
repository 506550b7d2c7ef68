package fleet

import (
	"context"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// agent runs until ctx ends, and calls level whenever it has all that the server had.
type agent func(ctx context.Context, level func())

// client is what the agents of a fleet are made of. prepare is called when an agent last ran.
type client struct {
	Name    string
	prepare func(s *server) agent
}

var (
	larder      = client{"Larder", func(s *server) agent { return newLarder(s, 0) }}
	spreading   = client{"Larder, RelistSpread 1 h", func(s *server) agent { return newLarder(s, time.Hour) }}
	clientGo    = client{"client-go", func(s *server) agent { return newClientGo(s, false) }}
	clientGoGet = client{"client-go, LIST", func(s *server) agent { return newClientGo(s, true) }}
)

// newClientGo returns an agent that runs client-go's reflector.
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

// forgetful is a cache.ReflectorStore that keeps nothing: what a client stores costs the server nothing.
type forgetful struct{ level func() }

func (forgetful) Add(any) error    { return nil }
func (forgetful) Update(any) error { return nil }
func (forgetful) Delete(any) error { return nil }
func (forgetful) Resync() error    { return nil }
func (f forgetful) Replace([]any, string) error {
	f.level()
	return nil
}

// newLarder returns an agent that runs Larder's reflector, and holds what the server has now. spread is
// Options.RelistSpread.
func newLarder(s *server, spread time.Duration) agent {
	at := s.now()
	made := s.changes(at)
	held := sink{cp: reflector.Checkpoint{ResourceVersion: strconv.FormatInt(s.rv(at), 10)}}
	for change := max(made-4, 1); change <= made; change++ {
		obj := s.changed(change)
		held.cp.Newest = append(held.cp.Newest, entry.ObjectRef{
			Key: cache.MetaObjectToName(obj).String(), UID: string(obj.UID), ResourceVersion: obj.ResourceVersion,
		})
	}
	return func(ctx context.Context, level func()) {
		l := link{s: s, watching: func() {}}
		held.level = level
		_ = reflector.New(l, held, reflector.Options{
			// What an informer asks at every connect: whose cluster it is.
			Verify:       func(ctx context.Context) (reflector.Reason, error) { return "", l.get(ctx) },
			RelistSpread: spread,
		}).Run(ctx) // it ends with ctx
	}
}

// sink is a reflector.Sink that keeps nothing but what a restart would find in the file.
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

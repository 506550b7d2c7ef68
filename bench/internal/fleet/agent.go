package fleet

import (
	"context"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/reflector"
)

// client is what the agents of a fleet are made of. prepare is called when an agent last ran, and what it returns is the agent: it
// runs until ctx ends, and calls level whenever it has all that the server had.
type client struct {
	Name    string
	prepare func(s *server) func(ctx context.Context, level func())
}

var (
	larder      = client{"Larder", func(s *server) func(context.Context, func()) { return newLarder(s, 0).run }}
	spreading   = client{"Larder, RelistSpread 1 h", func(s *server) func(context.Context, func()) { return newLarder(s, time.Hour).run }}
	clientGo    = client{"client-go", func(s *server) func(context.Context, func()) { return goAgent{s: s}.run }}
	clientGoGet = client{"client-go, LIST", func(s *server) func(context.Context, func()) { return goAgent{s: s, unlisting: true}.run }}
)

// goAgent runs client-go's reflector.
type goAgent struct {
	s         *server
	unlisting bool
}

func (a goAgent) run(ctx context.Context, level func()) {
	l := link{s: a.s, watching: level}
	var lw cache.ListerWatcher = &cache.ListWatch{ListWithContextFunc: l.ListWithContext, WatchFuncWithContext: l.WatchWithContext}
	if a.unlisting {
		lw = unlisting{lw}
	}
	r := cache.NewReflectorWithOptions(lw, &metav1.PartialObjectMetadata{}, forgetful{level}, cache.ReflectorOptions{Name: "agent"})
	r.RunWithContext(ctx)
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

// larderAgent runs Larder's reflector. It is its Sink, too, and keeps of what it is told what a restart would find in the file.
type larderAgent struct {
	s  *server
	cp reflector.Checkpoint
	// spread is Options.RelistSpread.
	spread time.Duration
	level  func()
}

// newLarder returns an agent that holds what the server has now.
func newLarder(s *server, spread time.Duration) *larderAgent {
	newest, rv := s.newest(5)
	a := &larderAgent{s: s, spread: spread, cp: reflector.Checkpoint{ResourceVersion: strconv.FormatInt(rv, 10)}}
	for _, obj := range newest {
		a.cp.Newest = append(a.cp.Newest, reflector.ObjectRef{
			Key: cache.MetaObjectToName(obj).String(), UID: string(obj.UID), ResourceVersion: obj.ResourceVersion,
		})
	}
	return a
}

func (a *larderAgent) run(ctx context.Context, level func()) {
	a.level = level
	l := link{s: a.s, watching: func() {}}
	r := reflector.New(l, a, reflector.Options{
		// What an informer asks at every connect: whose cluster it is.
		Verify:       func(ctx context.Context) (reflector.Reason, error) { return "", l.get(ctx) },
		RelistSpread: a.spread,
	})
	_ = r.Run(ctx) // it ends with ctx
}

// Checkpoint implements reflector.Sink.
func (a *larderAgent) Checkpoint(context.Context) (reflector.Checkpoint, error) { return a.cp, nil }

// Event implements reflector.Sink.
func (*larderAgent) Event(context.Context, watch.EventType, runtime.Object, string) error { return nil }

// Bookmark implements reflector.Sink.
func (*larderAgent) Bookmark(context.Context, string) error { return nil }

// BeginReplace implements reflector.Sink.
func (*larderAgent) BeginReplace(context.Context, reflector.Reason) error { return nil }

// Page implements reflector.Sink.
func (*larderAgent) Page(context.Context, []runtime.Object) error { return nil }

// Known implements reflector.Sink.
func (*larderAgent) Known(_ context.Context, refs []reflector.ObjectRef) ([]reflector.ObjectRef, error) {
	return refs, nil
}

// MustList implements reflector.Sink.
func (*larderAgent) MustList(context.Context, reflector.Reason) error { return nil }

// EndReplace implements reflector.Sink.
func (*larderAgent) EndReplace(context.Context, string) error { return nil }

// AbortReplace implements reflector.Sink.
func (*larderAgent) AbortReplace(context.Context) error { return nil }

// Synced implements reflector.Sink.
func (a *larderAgent) Synced(context.Context) error {
	a.level()
	return nil
}

package informer_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// side is one of the two compared informers, with its server and its handlers.
type side struct {
	name string
	c    config
	w    *world
	f    *front
	inf  cache.SharedIndexInformer
	mine *informer.Informer // mine is our informer; nil on client-go's side
	taps []*tap

	runs   int
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex    // mu guards the fields below
	reported []int         // reported has the ids of the server's errors that the watch error handler received
	others   []string      // others has the texts of other errors that the watch error handler received
	syncedAt time.Duration // syncedAt is the time from the script's start to the sync; -1 before the sync
	endedAt  time.Duration
	warned   int // warned counts the refused second calls of Run
}

// open makes the informer. Our informer uses the store st, or memory if st is nil.
func (s *side) open(st *store.Store) error {
	s.syncedAt, s.endedAt, s.runs = -1, -1, 0
	s.cancel, s.done = nil, nil
	if s.name == "ours" {
		lw, err := s.source()
		if err != nil {
			return err
		}
		inf, err := informer.New(lw, &corev1.Pod{}, informer.Options{
			Store: st, InMemory: st == nil, Residency: s.c.residency, Identity: podsIdentity, PageSize: s.c.pageSize,
			ResyncPeriod: s.c.resync, Indexers: s.c.indexers(), TransformVersion: s.c.transform,
		})
		if err != nil {
			return err
		}
		s.inf, s.mine = inf, inf
	} else {
		s.inf = cache.NewSharedIndexInformerWithOptions(s.f, &corev1.Pod{}, cache.SharedIndexInformerOptions{
			ResyncPeriod: s.c.resync, Indexers: s.c.indexers(),
		})
	}
	return errors.Join(s.inf.SetTransform(s.c.transformer()), s.setErrorHandler())
}

// source returns the server as a ListerWatcher, which either passes Go objects or answers HTTP requests.
func (s *side) source() (cache.ListerWatcher, error) {
	if s.c.contentType == "" {
		return s.f, nil
	}
	return s.f.listWatch(s.c.contentType)
}

func (s *side) setErrorHandler() error {
	if s.c.oldErrorHandler {
		return s.inf.SetWatchErrorHandler(func(r *cache.Reflector, err error) { s.report(r, err) })
	}
	return s.inf.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector,
		err error) {
		s.report(r, err)
	})
}

var faultID = regexp.MustCompile(`fault (\d+)`)

func (s *side) report(r *cache.Reflector, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == nil || r.TypeDescription() != "*v1.Pod" {
		s.others = append(s.others, fmt.Sprintf("an error for the reflector %v", r))
	}
	if m := faultID.FindStringSubmatch(err.Error()); m != nil {
		id, _ := strconv.Atoi(m[1])
		s.reported = append(s.reported, id)
		return
	}
	s.others = append(s.others, err.Error())
}

// start runs the informer. Further calls of start try to run the informer a second time.
func (s *side) start() {
	s.runs++
	if s.runs > 1 {
		s.inf.RunWithContext(klog.NewContext(context.Background(), s.counting()))
		return
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	s.cancel, s.done = cancel, make(chan struct{})
	go func() {
		defer close(s.done)
		s.inf.RunWithContext(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endedAt = s.w.now()
	}()
	go func(synced <-chan struct{}, ended <-chan struct{}) {
		select {
		case <-synced:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.syncedAt = s.w.now()
		case <-ended:
		}
	}(s.inf.HasSyncedChecker().Done(), s.done)
}

func (s *side) add(spec handlerSpec) error {
	p := newTap(s.w, spec)
	s.taps = append(s.taps, p)
	return p.register(s.inf)
}

func (s *side) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *side) stored() (out []string) {
	for _, obj := range s.inf.GetStore().List() {
		out = append(out, describeFully(obj))
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(keyIn(a), keyIn(b)) })
	return out
}

func (s *side) lookups() (out []string) {
	ix := s.inf.GetIndexer()
	for name := range ix.GetIndexers() {
		for _, value := range ix.ListIndexFuncValues(name) {
			objs, err := ix.ByIndex(name, value)
			keys, keysErr := ix.IndexKeys(name, value)
			slices.Sort(keys)
			line := fmt.Sprintf("%s %s: %d %q %v %v", name, value, len(objs), keys, err, keysErr)
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

// rvs returns two resourceVersions: the reflector's and the store's.
func (s *side) rvs() (reflector, stored int) {
	reflector, _ = strconv.Atoi(s.inf.LastSyncResourceVersion())
	stored, _ = strconv.Atoi(s.inf.GetStore().LastStoreSyncResourceVersion())
	return reflector, stored
}

// observe returns the informer's visible state, such as HasSynced and IsStopped, without the stored objects.
func (s *side) observe() (out []string) {
	s.mu.Lock()
	synced, ended, warned := s.syncedAt, s.endedAt, s.warned
	s.mu.Unlock()
	out = append(out, fmt.Sprintf("synced %v since %v, stopped %v at %v, controller %v, refused to run twice %d",
		s.inf.HasSynced(), synced, s.inf.IsStopped(), ended, s.inf.GetController().HasSynced(), warned),
		"called "+s.inf.HasSyncedChecker().Name())
	for n, p := range s.taps {
		if p.reg == nil {
			out = append(out, fmt.Sprintf("handler %d: none", n))
			continue
		}
		down := p.reg.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
		line := fmt.Sprintf("handler %d: synced %v, busy %v, shut down %v, called %s",
			n, p.uncertain || p.reg.HasSynced(), !p.idle(), cache.IsDone(doneChannel(down)), p.reg.HasSyncedChecker().Name())
		out = append(out, line)
	}
	return out
}

func (s *side) counting() logr.Logger {
	return logr.New(countSink{s})
}

// countSink is a log sink that counts, in side.warned, the warnings about a second call of Run.
type countSink struct{ s *side }

func (countSink) Init(logr.RuntimeInfo) {}
func (countSink) Enabled(int) bool      { return true }
func (c countSink) Info(_ int, msg string, _ ...any) {
	if strings.Contains(msg, "run more than once is not allowed") {
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		c.s.warned++
	}
}
func (countSink) Error(error, string, ...any)      {}
func (c countSink) WithValues(...any) logr.LogSink { return c }
func (c countSink) WithName(string) logr.LogSink   { return c }

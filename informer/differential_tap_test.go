package informer_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/tools/cache"
)

// call is one call of a handler's method, with descriptions of the objects passed to it.
type call struct {
	at       time.Duration
	typ      string // typ is add, update, delete, or gone for a delete with a DeletedFinalStateUnknown
	key      string
	old, new string // old is also the deleted object, or the last state in a DeletedFinalStateUnknown
	initial  bool
}

func (c call) String() string { return fmt.Sprintf("%v %s", c.at, c.untimed()) }

func (c call) untimed() string {
	s := c.typ
	if c.old != "" {
		s += " " + c.old
	}
	if c.typ == "update" {
		s += " to"
	}
	if c.new != "" {
		s += " " + c.new
	}
	if c.typ == "gone" && c.old == "" {
		s += " " + c.key
	}
	if c.initial {
		s += " initial"
	}
	return s
}

// repeats reports whether the call is an update with two equal objects, from a resync or a repeated list.
func (c call) repeats() bool { return c.typ == "update" && c.old == c.new }

type handlerSpec struct {
	kind   string        // kind is the kind of handler: full, funcs, pointer, detailed, adds, filter
	how    string        // how is the method of registration: plain, period, options
	period time.Duration // period is the resync period if how is period or options
	slow   string        // slow is the key of the object about which calls are slow; "" if none are
	panics bool          // panics means that calls panic if the object's value is marked for panics
}

const slowness = 1700 * time.Millisecond

func (h handlerSpec) String() string {
	s := h.kind + " handler"
	if h.how != "plain" {
		s += fmt.Sprintf(" by %s, resync %v", h.how, h.period)
	}
	if h.slow != "" {
		s += ", slow on " + h.slow
	}
	if h.panics {
		s += ", panics"
	}
	return s
}

// tap is a handler that keeps its calls. Its spec says whether calls are slow or panic.
type tap struct {
	spec handlerSpec
	w    *world
	reg  cache.ResourceEventHandlerRegistration // reg is nil if the informer refused the handler
	// removed is true once the handler was removed, after which it must get no calls.
	removed bool
	walk    walk
	// uncertain is true if only the timing of events decides whether the registration has synced.
	uncertain bool
	merged    int // merged counts the merged updates in our informer's last status of this handler

	mu        sync.Mutex // mu guards the fields below
	calls     []call
	total     int
	news      int // news counts the calls that report a new state of an object
	panicked  int
	busy      bool
	repeating bool // repeating means that the current or last call reports no new state
	held      bool
	tooLate   bool // tooLate means that a call for an initial object came after the registration's sync
	synced    func() bool
	gate      chan struct{} // gate blocks calls until it is closed; nil if calls do not block
	logs      []string
}

func newTap(w *world, spec handlerSpec) *tap { return &tap{w: w, spec: spec, walk: newWalk()} }

func (p *tap) OnAdd(obj any, initial bool) {
	p.note(call{typ: "add", key: keyOf(obj), new: describeFully(obj), initial: initial})
}

func (p *tap) OnUpdate(old, new any) {
	p.note(call{typ: "update", key: keyOf(new), old: describeFully(old), new: describeFully(new)})
}

func (p *tap) OnDelete(obj any) {
	u, ok := obj.(cache.DeletedFinalStateUnknown)
	if !ok {
		p.note(call{typ: "delete", key: keyOf(obj), old: describeFully(obj)})
		return
	}
	c := call{typ: "gone", key: u.Key}
	if u.Obj != nil {
		c.old = describeFully(u.Obj)
	}
	p.note(c)
}

func (p *tap) note(c call) {
	c.at = p.w.now()
	p.mu.Lock()
	p.calls = append(p.calls, c)
	p.total++
	if !c.repeats() {
		p.news++
	}
	p.busy, p.repeating = true, c.repeats()
	p.tooLate = p.tooLate || c.initial && p.synced != nil && p.synced()
	gate := p.gate
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy = false
	}()
	if gate != nil {
		<-gate
	}
	if p.spec.slow == c.key {
		time.Sleep(slowness)
	}
	if state := c.new; p.spec.panics && c.typ != "gone" && !c.repeats() && strings.Contains(state, panics+"#") {
		p.mu.Lock()
		p.panicked++
		p.mu.Unlock()
		panic("the handler panics on " + c.key)
	}
}

// take returns the calls since the last take, and whether some of them were delayed because calls were blocked or slow.
func (p *tap) take() (calls []call, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls, held = p.calls, p.held || p.spec.slow != ""
	p.calls, p.held = nil, p.gate != nil
	return calls, held
}

func (p *tap) made() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

func (p *tap) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.busy
}

// resyncing reports whether a call that reports no new state of an object, as in a resync, is in progress.
func (p *tap) resyncing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy && p.repeating
}

func (p *tap) block() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held = true; p.gate == nil {
		p.gate = make(chan struct{})
	}
}

func (p *tap) unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate != nil {
		close(p.gate)
		p.gate = nil
	}
}

func (p *tap) handler() cache.ResourceEventHandler {
	funcs := cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { p.OnAdd(obj, false) }, UpdateFunc: p.OnUpdate, DeleteFunc: p.OnDelete,
	}
	switch p.spec.kind {
	case "funcs":
		return funcs
	case "pointer":
		return &funcs
	case "adds":
		return cache.ResourceEventHandlerFuncs{AddFunc: funcs.AddFunc}
	case "detailed":
		return cache.ResourceEventHandlerDetailedFuncs{AddFunc: p.OnAdd, UpdateFunc: p.OnUpdate, DeleteFunc: p.OnDelete}
	case "filter":
		return cache.FilteringResourceEventHandler{FilterFunc: evenValue, Handler: p}
	}
	return p
}

// partial reports whether handlers of this kind get only some of the calls, such as only adds.
func (h handlerSpec) partial() bool { return h.kind == "adds" || h.kind == "filter" }

// blind reports whether handlers of this kind do not get the parameter isInInitialList.
func (h handlerSpec) blind() bool {
	return h.kind == "funcs" || h.kind == "pointer" || h.kind == "adds"
}

func evenValue(obj any) bool {
	if u, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = u.Obj
	}
	state := describeFully(obj)
	_, value, _ := strings.Cut(state, "=")
	value, _, _ = strings.Cut(value, "#")
	value = strings.Trim(value, panics+poison)
	return value != "" && (value[len(value)-1]-'0')%2 == 0
}

func (p *tap) register(inf cache.SharedIndexInformer) (err error) {
	switch p.spec.how {
	case "period":
		p.reg, err = inf.AddEventHandlerWithResyncPeriod(p.handler(), p.spec.period)
	case "options":
		logger := p.logger()
		p.reg, err = inf.AddEventHandlerWithOptions(p.handler(),
			cache.HandlerOptions{Logger: &logger, ResyncPeriod: &p.spec.period})
	default:
		logger := p.logger()
		p.reg, err = inf.AddEventHandlerWithOptions(p.handler(), cache.HandlerOptions{Logger: &logger})
	}
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.synced = p.reg.HasSynced
	}
	return err
}

func (p *tap) early() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tooLate
}

// logger returns a logger that collects messages. It omits the text of a panic.
func (p *tap) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		if strings.Contains(args, "Observed a panic") {
			args = "Observed a panic"
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.logs = append(p.logs, args)
	}, funcr.Options{})
}

func (p *tap) logged() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.logs...)
}

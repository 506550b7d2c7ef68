package informer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/guest"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// openAPIJitter bounds how long after a change of the schema was noticed the list in the background
// begins, so that not all clients of a cluster list at once.
const openAPIJitter = 10 * time.Minute

// openAPIEvery is how often the schema's hash is read at most: it comes with those of all other group-versions, some
// ten kilobytes, and a connection on a bad link is made anew often.
const openAPIEvery = time.Hour

// claimFunc is store.Collection's ClaimCluster.
type claimFunc func(id string, exchanged bool) error

// attributes compares what the contents were written with against what they would be written with now. The reflector's
// goroutine is the only one that calls it.
type attributes struct {
	clusterID   func(ctx context.Context) (string, error)
	openAPIHash func(ctx context.Context) (string, error)
	claim       claimFunc // nil if the objects are in memory only
	clock       clock.WithTicker
	// announce says in the status why the contents are to be written anew.
	announce func(reflector.Reason)
	// relist asks for a list in the background after the delay. Calling it again has no effect until it has begun.
	relist *delayedRelist

	// want is what a list would be written with now; its fields from the server are as last read.
	want entry.Attributes
	// have is what the contents are written with, those still in the queue included; pending is that of the list
	// that is being received.
	have, pending entry.Attributes
	listing       bool // between forList and listed
	holds         bool // there are contents that have describes
	// unguarded is told which change of the server would not be noticed and why; why is nil once it would be.
	unguarded   func(ctx context.Context, change string, why error)
	openAPIRead time.Time // when want.OpenAPI was read; zero if never in this run
}

// load takes over what is stored.
func (a *attributes) load(info store.Info) {
	a.have, a.holds = info.Attributes, info.Complete || info.Objects > 0
}

// mismatch returns why the contents need to be written anew, as far as it is known without the server.
func (a *attributes) mismatch() reflector.Reason {
	switch {
	case a.have.Codec != a.want.Codec:
		return reflector.ReasonCodec
	case a.have.Schema != a.want.Schema:
		return reflector.ReasonSchema
	case a.have.Transform != a.want.Transform:
		return reflector.ReasonTransform
	}
	return ""
}

// verify is reflector.Options.Verify: it reads the cluster's id and the schema's hash. Another cluster is a reason to
// list now, another schema one to list later. An error, as for a connection that failed, is also that the store is used
// for another cluster by others. While a list is received it is compared with what that list repairs.
func (a *attributes) verify(ctx context.Context) (reflector.Reason, error) {
	if err := a.refresh(ctx); err != nil {
		return "", err
	}
	have := a.have
	if a.listing {
		have = a.pending
	}
	a.compareKnown(ctx, have)
	exchanged := differ(have.ClusterID, a.want.ClusterID)
	if a.claim != nil {
		if err := a.claim(a.want.ClusterID, exchanged); err != nil {
			return "", err
		}
	}
	if exchanged {
		a.announce(reflector.ReasonCluster)
		return reflector.ReasonCluster, nil
	}
	if differ(have.OpenAPI, a.want.OpenAPI) {
		a.announce(reflector.ReasonOpenAPI)
		a.relist.after(rand.N(openAPIJitter))
	}
	return "", nil
}

// forList returns the options of a list that begins now, after verify. If anything that the contents depend on has
// changed, the list rewrites them, whatever its reason.
func (a *attributes) forList(reason reflector.Reason) store.ReplaceOptions {
	a.relist.cancel()
	next := a.want
	if next.ClusterID == "" {
		next.ClusterID = a.have.ClusterID
	}
	if next.OpenAPI == "" {
		next.OpenAPI = a.have.OpenAPI
	}
	changed := a.mismatch() != "" || differ(a.have.ClusterID, next.ClusterID) || differ(a.have.OpenAPI, next.OpenAPI)
	a.pending, a.listing = next, true
	return store.ReplaceOptions{Rewrite: reason.Rewrites() || a.holds && changed, Attributes: next}
}

// listed says that the list that began last has ended, and whether it is complete.
func (a *attributes) listed(complete bool) {
	a.listing = false
	if complete {
		a.have, a.holds = a.pending, true
	}
}

// errListedUnknown is why a change is not noticed that could be by now.
var errListedUnknown = errors.New("what is stored was listed when it could not be read; the next list mends that")

// compareKnown says which changes would be noticed: those of which both what the server has now and what it had are
// known.
func (a *attributes) compareKnown(ctx context.Context, have entry.Attributes) {
	for _, c := range []struct{ change, have, want string }{
		{whatCluster, have.ClusterID, a.want.ClusterID},
		{whatSchema, have.OpenAPI, a.want.OpenAPI},
	} {
		switch {
		case c.want == "":
		case c.have == "" && a.holds:
			a.unguarded(ctx, c.change, errListedUnknown)
		default:
			a.unguarded(ctx, c.change, nil)
		}
	}
}

// refresh reads from the server, both at once. An error is one of the connection; an answer that does not say what was
// asked is not, since such a server can be watched all the same. The hash is tried again at the next connect.
func (a *attributes) refresh(ctx context.Context) error {
	id, hash := a.read(ctx)
	if a.clusterID != nil {
		switch {
		case id.err == nil:
			a.want.ClusterID = id.value
		case !isAnswer(id.err):
			return id.err
		default:
			a.want.ClusterID = ""
			a.unguarded(ctx, whatCluster, id.err)
		}
	}
	if hash == nil {
		return nil
	}
	a.want.OpenAPI = hash.value
	if hash.err != nil {
		a.want.OpenAPI = ""
		a.unguarded(ctx, whatSchema, hash.err)
	}
	if hash.err == nil || isAnswer(hash.err) {
		a.openAPIRead = a.clock.Now()
	}
	return nil
}

// attribute is what the server said of one.
type attribute struct {
	value string
	err   error
}

// read asks for the cluster's id, and for the schema's hash if it is due; else hash is nil.
func (a *attributes) read(ctx context.Context) (id attribute, hash *attribute) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	defer beside.Wait()
	if a.openAPIHash != nil && (a.openAPIRead.IsZero() || a.clock.Since(a.openAPIRead) >= openAPIEvery) {
		hash = new(attribute)
		beside.Go(func() { hash.value, hash.err = a.openAPIHash(ctx) })
	}
	if a.clusterID != nil {
		if id.value, id.err = a.clusterID(ctx); id.err != nil && !isAnswer(id.err) {
			cancel() // the connection is bad for the other one, too
		}
	}
	return id, hash
}

// callTime is how long Options.ClusterID and OpenAPIHash may each take, and callWait how long they may go on after
// their context has ended. Together that is less than reflector.Options.Verify has, so that verify itself always
// returns, and nobody else touches the attributes meanwhile.
const (
	callTime = 40 * time.Second
	callWait = 2 * time.Second
)

// bounded returns fn so that it returns in time and does not panic; nil stays nil.
func bounded(what string, fn func(ctx context.Context) (string, error)) func(ctx context.Context) (string, error) {
	if fn == nil {
		return nil
	}
	g := &guest.Guest[string]{What: what, Wait: callWait}
	return func(ctx context.Context) (string, error) {
		limited, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		v, err := g.Call(ctx, limited, fn)
		if errors.Is(err, guest.ErrOverdue) || errors.Is(err, guest.ErrPanicked) {
			err = fmt.Errorf("%s: %w", what, err)
		}
		return v, err
	}
}

// isAnswer reports an error with which a server says for good that it will not tell.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusNotImplemented:
		return true
	}
	return false
}

// differ compares two attributes of which the empty one is unknown and matches any.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// delayedRelist asks for a list once a delay is over.
type delayedRelist struct {
	clock clock.WithTicker
	ask   func()

	mu    sync.Mutex
	timer clock.Timer    // guarded by mu; nil while none is planned
	stop  chan struct{}  // guarded by mu; ends the wait for timer
	wg    sync.WaitGroup // of the goroutines that wait
}

func (d *delayedRelist) after(delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		return
	}
	timer, stop := d.clock.NewTimer(delay), make(chan struct{})
	d.timer, d.stop = timer, stop
	d.wg.Go(func() {
		select {
		case <-timer.C():
			d.ask()
		case <-stop:
		}
	})
}

// cancel forgets the plan.
func (d *delayedRelist) cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		close(d.stop)
		d.timer, d.stop = nil, nil
	}
}

// close cancels, and waits until nothing is running.
func (d *delayedRelist) close() {
	d.cancel()
	d.wg.Wait()
}

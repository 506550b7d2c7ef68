package attributes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/guest"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// openAPIJitter bounds how long after a change of the schema was noticed the list in the background
// begins, so that not all clients of a cluster list at once.
const openAPIJitter = 10 * time.Minute

// openAPIEvery is how often the schema's hash is read at most: it comes with those of all other group-versions, some
// ten kilobytes, and a connection on a bad link is made anew often.
const openAPIEvery = time.Hour

// The changes of a server that may go unnoticed, as Options.Unguarded is told.
const (
	Cluster = "another cluster on the same address"
	Schema  = "a changed schema of the resource"
)

// Options are the options of New.
type Options struct {
	// Want is what a list would be written with now, as far as it is known without the server.
	Want entry.Attributes
	// ClusterID and OpenAPIHash are those of informer.Options; nil asks nothing.
	ClusterID, OpenAPIHash func(ctx context.Context) (string, error)
	// Claim is store.Collection's ClaimCluster; nil if the objects are in memory only.
	Claim func(id string, exchanged bool) error
	// Announce is told why the contents are to be written anew.
	Announce func(reflector.Reason)
	// Unguarded is told which change of the server would not be noticed and why; why is nil once it would be.
	Unguarded func(ctx context.Context, change string, why error)
	// Relist asks for a list because the schema has changed.
	Relist func()
	Clock  clock.WithTicker
}

// Tracker compares what the contents were written with against what they would be written with now. One goroutine, the
// reflector's, calls it, but for Close.
type Tracker struct {
	o Options
	// relist asks for a list in the background after a delay. Asking again has no effect until it has begun.
	relist delayed

	// want is what a list would be written with now; its fields from the server are as last read.
	want entry.Attributes
	// have is what the contents are written with, those still on their way to the store included; pending is that of the
	// list that is being received.
	have, pending entry.Attributes
	listing       bool      // between ForList and Listed
	holds         bool      // there are contents that have describes
	openAPIRead   time.Time // when want.OpenAPI was read; zero if never in this run
}

// New returns a Tracker. Close ends what it plans.
func New(o Options) *Tracker {
	o.ClusterID = bounded("Options.ClusterID", o.ClusterID)
	o.OpenAPIHash = bounded("Options.OpenAPIHash", o.OpenAPIHash)
	return &Tracker{o: o, want: o.Want, relist: delayed{clock: o.Clock, ask: o.Relist}}
}

// Close forgets the list that is planned, and waits until nothing is running.
func (a *Tracker) Close() { a.relist.close() }

// Load takes over what is stored.
func (a *Tracker) Load(info store.Info) {
	a.have, a.holds = info.Attributes, info.Complete || info.Objects > 0
}

// Mismatch returns why the contents need to be written anew, as far as it is known without the server.
func (a *Tracker) Mismatch() reflector.Reason {
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

// Verify is reflector.Options.Verify: it reads the cluster's id and the schema's hash. Another cluster is a reason to
// list now, another schema one to list later. An error, as for a connection that failed, is also that the store is used
// for another cluster by others. While a list is received it is compared with what that list repairs.
func (a *Tracker) Verify(ctx context.Context) (reflector.Reason, error) {
	if err := a.refresh(ctx); err != nil {
		return "", err
	}
	have := a.have
	if a.listing {
		have = a.pending
	}
	a.compareKnown(ctx, have)
	exchanged := differ(have.ClusterID, a.want.ClusterID)
	if a.o.Claim != nil {
		if err := a.o.Claim(a.want.ClusterID, exchanged); err != nil {
			return "", err
		}
	}
	if exchanged {
		a.o.Announce(reflector.ReasonCluster)
		return reflector.ReasonCluster, nil
	}
	if differ(have.OpenAPI, a.want.OpenAPI) {
		a.o.Announce(reflector.ReasonOpenAPI)
		a.relist.after(rand.N(openAPIJitter))
	}
	return "", nil
}

// ForList returns the options of a list that begins now, after Verify. If anything that the contents depend on has
// changed, the list rewrites them, whatever its reason.
func (a *Tracker) ForList(reason reflector.Reason) store.ReplaceOptions {
	a.relist.cancel()
	next := a.want
	if next.ClusterID == "" {
		next.ClusterID = a.have.ClusterID
	}
	if next.OpenAPI == "" {
		next.OpenAPI = a.have.OpenAPI
	}
	changed := a.Mismatch() != "" || differ(a.have.ClusterID, next.ClusterID) || differ(a.have.OpenAPI, next.OpenAPI)
	a.pending, a.listing = next, true
	return store.ReplaceOptions{Rewrite: reason.Rewrites() || a.holds && changed, Attributes: next}
}

// Listed says that the list that began last has ended, and whether it is complete.
func (a *Tracker) Listed(complete bool) {
	a.listing = false
	if complete {
		a.have, a.holds = a.pending, true
	}
}

// errListedUnknown is why a change is not noticed that could be by now.
var errListedUnknown = errors.New("what is stored was listed when it could not be read; the next list mends that")

// compareKnown says which changes would be noticed: those of which both what the server has now and what it had are
// known.
func (a *Tracker) compareKnown(ctx context.Context, have entry.Attributes) {
	for _, c := range []struct{ change, have, want string }{
		{Cluster, have.ClusterID, a.want.ClusterID},
		{Schema, have.OpenAPI, a.want.OpenAPI},
	} {
		switch {
		case c.want == "":
		case c.have == "" && a.holds:
			a.o.Unguarded(ctx, c.change, errListedUnknown)
		default:
			a.o.Unguarded(ctx, c.change, nil)
		}
	}
}

// refresh reads from the server, both at once. An error is one of the connection; an answer that does not say what was
// asked is not, since such a server can be watched all the same. The hash is tried again at the next connect.
func (a *Tracker) refresh(ctx context.Context) error {
	id, hash := a.read(ctx)
	if a.o.ClusterID != nil {
		switch {
		case id.err == nil:
			a.want.ClusterID = id.value
		case !limiter.Final(id.err):
			return id.err
		default:
			a.want.ClusterID = ""
			a.o.Unguarded(ctx, Cluster, id.err)
		}
	}
	if hash == nil {
		return nil
	}
	a.want.OpenAPI = hash.value
	if hash.err != nil {
		a.want.OpenAPI = ""
		a.o.Unguarded(ctx, Schema, hash.err)
	}
	if hash.err == nil || limiter.Final(hash.err) {
		a.openAPIRead = a.o.Clock.Now()
	}
	return nil
}

// attribute is what the server said of one.
type attribute struct {
	value string
	err   error
}

// read asks for the cluster's id, and for the schema's hash if it is due; else hash is nil.
func (a *Tracker) read(ctx context.Context) (id attribute, hash *attribute) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	defer beside.Wait()
	if a.o.OpenAPIHash != nil && (a.openAPIRead.IsZero() || a.o.Clock.Since(a.openAPIRead) >= openAPIEvery) {
		hash = new(attribute)
		beside.Go(func() { hash.value, hash.err = a.o.OpenAPIHash(ctx) })
	}
	if a.o.ClusterID != nil {
		if id.value, id.err = a.o.ClusterID(ctx); id.err != nil && !limiter.Final(id.err) {
			cancel() // the connection is bad for the other one, too
		}
	}
	return id, hash
}

// callTime is how long Options.ClusterID and OpenAPIHash may each take, and callWait how long they may go on after
// their context has ended. Together that is less than reflector.Options.Verify has, so that Verify itself always
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

// differ compares two attributes of which the empty one is unknown and matches any.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

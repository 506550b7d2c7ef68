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
	"github.com/larder-dev/larder/informer/internal/shared"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// openAPIJitter is the maximum random delay before the background list that follows a changed schema, or an attribute
// that has become known. It keeps the clients of a cluster from listing at the same time.
const openAPIJitter = 10 * time.Minute

// openAPIEvery is the minimum time between two reads of the schema's hash. The answer has the hashes of all
// group-versions, some ten kilobytes, and reconnects are frequent on a bad connection.
const openAPIEvery = time.Hour

// openAPIRecheck is how long after a list by metadata the schema's hash is read again, at the next connect and even
// within openAPIEvery. kube-apiserver ends the watches of a custom resource at about the time when it publishes the new
// schema, so the hash that allowed the list may be the old schema's.
const openAPIRecheck = 30 * time.Second

// Changes of a server that may go unnoticed: the values of change in Options.Unguarded.
const (
	Cluster = "another cluster on the same address"
	Schema  = "a changed schema of the resource"
)

// Options are the options of New.
type Options struct {
	// Want has the attributes that a list would be written with now, without the attributes read from the server.
	Want entry.Attributes
	// Sent is the Schema of contents whose payloads are all stored as the server sent them; see codec.SentFingerprint.
	// Sends is true if lists are stored in that form.
	Sent  string
	Sends bool
	// Encoding is the encoding of requests; nil if the client's configuration decides.
	Encoding *Encoding
	// ClusterID and OpenAPIHash are the functions of these names in informer.Options; each may be nil.
	ClusterID, OpenAPIHash func(ctx context.Context) (string, error)
	// Claim fails if another collection of the store's file is in use for another cluster. It is nil if the objects are
	// in memory only.
	Claim func(id string, exchanged bool) error
	// Announce is called with the reason why the contents have to be rewritten.
	Announce func(reflector.Reason)
	// Unguarded is called with a change that would go unnoticed, and the reason; why is nil once it would be noticed.
	Unguarded func(ctx context.Context, change string, why error)
	Relist    func(reflector.Reason)
	Clock     clock.WithTicker
}

// Tracker compares the attributes of the contents with the attributes that a list would be written with now. Only the
// reflector's goroutine calls its methods, except Close.
type Tracker struct {
	o Options
	// relist requests a list in the background after a delay. A second request before the list begins has no effect.
	relist delayed

	// want has the attributes that a list would be written with now. Those from the server are as last read.
	want entry.Attributes
	// have has the attributes of the stored contents, including queued deltas. pending has the attributes of the list
	// that is being received.
	have, pending  entry.Attributes
	listing        bool      // listing is true between ForList and Listed
	holds          bool      // holds is true if the collection has contents, which the field have describes
	openAPIRead    time.Time // openAPIRead is when the schema's hash was last read, by Options.Clock; zero if never
	connected      time.Time // connected is when the last Verify began, by the machine's clock
	fresh          bool      // fresh is true if the schema's hash was read after the time connected
	metadataListed time.Time // metadataListed is when a list by metadata was allowed; zero once the hash was read later
	verified       bool      // verified is true once the server has answered the requests of Verify in this run
	seeding        bool      // seeding is true if the next list is a seed
	seedOpenAPI    string    // seedOpenAPI is the schema hash of the seed
	seedWire       string    // seedWire is the encoding of the seed
}

// New returns a Tracker. The caller must call Close.
func New(o Options) *Tracker {
	o.ClusterID = Bounded("Options.ClusterID", o.ClusterID)
	o.OpenAPIHash = Bounded("Options.OpenAPIHash", o.OpenAPIHash)
	return &Tracker{o: o, want: o.Want, relist: delayed{clock: o.Clock, ask: o.Relist}}
}

// Close cancels the planned list, and waits for its goroutine.
func (a *Tracker) Close() { a.relist.close() }

// Load sets the attributes of the contents to the stored attributes in info.
func (a *Tracker) Load(info entry.Info) {
	a.have, a.holds = info.Attributes, info.Complete || info.Objects > 0
}

// Mismatch returns why the stored contents must be rewritten, as far as that is known without the server; or "".
func (a *Tracker) Mismatch() reflector.Reason {
	switch {
	case a.have.Codec != a.want.Codec:
		return reflector.ReasonCodec
	case a.have.Schema != a.want.Schema && a.have.Schema != a.o.Sent:
		return reflector.ReasonSchema
	case a.have.Transform != a.want.Transform:
		return reflector.ReasonTransform
	}
	return ""
}

// Verify implements reflector.Options.Verify: it reads the cluster's id and the schema's hash. If the cluster has
// changed, it returns a reason to list now. If the schema or the encoding of requests has changed, it plans a list for
// later. It also fails if other informers use the store's file for another cluster. While a list is being received, the
// attributes of that list are compared.
//
// lost is when the last connection was lost. The answers must have been requested after that, since another server may
// have answered before. Informers that lose their connections together share the requests.
func (a *Tracker) Verify(ctx context.Context, lost time.Time) (reflector.Reason, error) {
	version, err := a.refresh(ctx, lost)
	if err != nil {
		return "", err
	}
	a.verified = true
	have := a.have
	if a.listing {
		have = a.pending
	}
	a.compareKnown(ctx, have)
	exchanged := differ(have.ClusterID, a.want.ClusterID)
	if a.o.Encoding != nil {
		stored := have.Wire
		if exchanged {
			stored = ""
		}
		a.want.Wire = a.o.Encoding.decide(version, stored)
	}
	if a.o.Claim != nil {
		if err := a.o.Claim(a.want.ClusterID, exchanged); err != nil {
			return "", err
		}
	}
	if exchanged {
		a.o.Announce(reflector.ReasonCluster)
		return reflector.ReasonCluster, nil
	}
	a.planList(have)
	return "", nil
}

// hides reports whether contents that were sent in the encoding wire may lack fields that the server has, because it is
// newer than the types. Contents sent as JSON lack none, even if the server was newer. So neither a newer program nor
// an even newer server requires a list.
func (a *Tracker) hides(wire string) bool {
	return newer(a.want.Wire) && !newer(wire) && wire != wireJSON
}

// planList plans a list if the contents were listed with another schema, while the schema's hash or the cluster's id
// was unknown, or in an encoding that may hide fields.
func (a *Tracker) planList(have entry.Attributes) {
	described := a.holds || a.listing
	switch {
	case differ(have.OpenAPI, a.want.OpenAPI), described && have.OpenAPI == "" && a.want.OpenAPI != "":
		a.o.Announce(reflector.ReasonOpenAPI)
		a.relist.after(rand.N(openAPIJitter), reflector.ReasonOpenAPI)
	case described && have.ClusterID == "" && a.want.ClusterID != "":
		a.o.Announce(reflector.ReasonCluster)
		a.relist.after(rand.N(openAPIJitter), reflector.ReasonCluster)
	case described && a.hides(have.Wire):
		a.o.Announce(reflector.ReasonEncoding)
		a.relist.after(rand.N(openAPIJitter), reflector.ReasonEncoding)
	}
}

// AllowsMetadata reports whether equal UID and resourceVersion prove that the server's object has the stored content.
// That is so if all attributes on which stored contents depend are known and have not changed since the last list.
// AllowsMetadata reads the schema's hash, unless it was read since the last Verify began: an earlier answer may have
// the hash of an older schema.
func (a *Tracker) AllowsMetadata(ctx context.Context) bool {
	if a.o.OpenAPIHash == nil {
		return false
	}
	if !a.fresh {
		a.setOpenAPI(ctx, a.readOpenAPI(ctx, a.connected))
	}
	allowed := a.fresh && a.want.OpenAPI != "" && !a.changed(a.want)
	if allowed {
		a.metadataListed = time.Now()
	}
	return allowed
}

// changed reports whether a list with the attributes now may contain an object that differs from the stored one
// although UID and resourceVersion are equal.
func (a *Tracker) changed(now entry.Attributes) bool {
	return a.Mismatch() != "" || a.have.ClusterID != now.ClusterID || a.have.OpenAPI != now.OpenAPI ||
		a.hides(a.have.Wire)
}

// ErrUnverified is the error of SeedCluster before the id of the server's cluster has been read.
var ErrUnverified = errors.New("the server's cluster is not known yet")

// SeedCluster returns the id of the cluster that a seed must be from: the server's id, or pinned if the server's is
// unknown. It fails if the two ids differ, and with ErrUnverified if pinned is "" and the server has not answered yet.
func (a *Tracker) SeedCluster(pinned string) (string, error) {
	switch {
	case pinned == "" && !a.verified:
		return "", ErrUnverified
	case pinned == "" && a.want.ClusterID == "":
		return "", errors.New("the id of the server's cluster cannot be read, and Options.SeedCluster does not pin it")
	case pinned == "":
		return a.want.ClusterID, nil
	case a.want.ClusterID == "":
		a.want.ClusterID = pinned
		if a.o.Claim != nil {
			return pinned, a.o.Claim(pinned, false)
		}
	case a.want.ClusterID != pinned:
		return "", fmt.Errorf("the server's cluster is %s, and Options.SeedCluster pins %s", a.want.ClusterID, pinned)
	}
	return pinned, nil
}

// Seeding announces that the next list is a seed, and the schema hash (openAPI) and encoding (wire) of its objects.
func (a *Tracker) Seeding(openAPI, wire string) {
	a.seeding, a.seedOpenAPI, a.seedWire = true, openAPI, wire
}

// ForList returns the options of a list that begins now, after Verify. If an attribute has changed or become known, the
// list rewrites the contents, even if it was requested for another reason.
func (a *Tracker) ForList(reason reflector.Reason) store.ReplaceOptions {
	a.relist.cancel()
	next := a.want
	if next.ClusterID == "" {
		next.ClusterID = a.have.ClusterID
	}
	if next.OpenAPI == "" {
		next.OpenAPI = a.have.OpenAPI
	}
	if a.seeding {
		next.OpenAPI, next.Wire, a.seeding = a.seedOpenAPI, a.seedWire, false
	}
	if a.o.Sends {
		next.Schema = a.o.Sent
	}
	a.pending, a.listing = next, true
	return store.ReplaceOptions{Rewrite: reason.Rewrites() || a.holds && a.changed(next), Attributes: next}
}

// Listed is called at the end of a list; complete is false if it was aborted.
func (a *Tracker) Listed(complete bool) {
	a.listing = false
	if complete {
		a.have, a.holds = a.pending, true
	}
}

// errListedUnknown: the attribute was unknown at the last list, so its change would not be noticed.
var errListedUnknown = errors.New("what is stored was listed when it could not be read; a list within ten minutes " +
	"mends that")

// compareKnown reports to Options.Unguarded that an attribute's change is noticed if the server's and the contents'
// values are known.
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

// refresh reads the attributes from the server concurrently, and returns the server's version. It fails only if the
// cluster's id or the version cannot be read because of the connection. A server that refuses the requests can still be
// watched. A hash that could not be read because of the connection is read again at the next connect.
func (a *Tracker) refresh(ctx context.Context, lost time.Time) (version string, err error) {
	a.fresh, a.connected = false, time.Now()
	id, hash, v := a.read(ctx, lost)
	if a.o.ClusterID != nil {
		switch {
		case id.err == nil:
			a.want.ClusterID = id.value
		case !limiter.Final(id.err):
			return "", id.err
		default:
			a.want.ClusterID = ""
			a.o.Unguarded(ctx, Cluster, id.err)
		}
	}
	if v.err != nil && !limiter.Final(v.err) {
		return "", v.err
	}
	if hash != nil {
		a.setOpenAPI(ctx, *hash)
	}
	return v.value, nil
}

func (a *Tracker) setOpenAPI(ctx context.Context, hash attribute) {
	a.want.OpenAPI, a.fresh = hash.value, hash.err == nil && !hash.read.Before(a.connected)
	if hash.err != nil {
		a.want.OpenAPI = ""
		a.o.Unguarded(ctx, Schema, hash.err)
	}
	if hash.err == nil || limiter.Final(hash.err) {
		a.openAPIRead = a.o.Clock.Now().Add(-time.Since(hash.read))
		if !hash.read.Before(a.metadataListed.Add(openAPIRecheck)) {
			a.metadataListed = time.Time{}
		}
	}
}

type attribute struct {
	value string
	err   error
	read  time.Time // read is when the schema's hash was requested; zero for other attributes
}

// readOpenAPI returns the schema's hash. It was requested from the server at notBefore or later.
func (a *Tracker) readOpenAPI(ctx context.Context, notBefore time.Time) attribute {
	ctx, asked := shared.Ask(ctx, notBefore)
	hash := attribute{read: time.Now()}
	hash.value, hash.err = a.o.OpenAPIHash(ctx)
	if hash.err == nil && !asked.Read().IsZero() { // after an error the call may still be running and using asked
		hash.read = asked.Read()
	}
	return hash
}

// openAPIDue reports whether this connect must read the schema's hash, and the minimum request time of the answer.
func (a *Tracker) openAPIDue() (notBefore time.Time, due bool) {
	if a.o.OpenAPIHash == nil {
		return time.Time{}, false
	}
	if recheck := a.metadataListed.Add(openAPIRecheck); !a.metadataListed.IsZero() && time.Now().After(recheck) {
		return recheck, true
	}
	return time.Time{}, a.openAPIRead.IsZero() || a.o.Clock.Since(a.openAPIRead) >= openAPIEvery
}

// read reads the cluster's id, the server's version if an encoding depends on it, and the schema's hash if it is due.
// The id and the version are requested after the time lost, when the last connection was lost.
func (a *Tracker) read(ctx context.Context, lost time.Time) (id attribute, hash *attribute, version attribute) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	if notBefore, due := a.openAPIDue(); due {
		hash = new(attribute)
		beside.Go(func() { *hash = a.readOpenAPI(ctx, notBefore) })
	}
	if a.o.Encoding != nil && a.o.Encoding.version != nil {
		ctx, _ := shared.Ask(ctx, lost)
		beside.Go(func() { version.value, version.err = a.o.Encoding.version(ctx) })
	}
	if a.o.ClusterID != nil {
		ctx, _ := shared.Ask(ctx, lost)
		if id.value, id.err = a.o.ClusterID(ctx); id.err != nil && !limiter.Final(id.err) {
			cancel() // the hash cannot be read on this connection either
		}
	}
	beside.Wait()
	return id, hash, version
}

// callTime bounds one call of Options.ClusterID or OpenAPIHash. callWait bounds how long the call may continue after
// the end of its context. Together they are less than the timeout of reflector.Options.Verify, so Verify always returns
// and is never abandoned while it uses the Tracker.
const (
	callTime = 40 * time.Second
	callWait = 2 * time.Second
)

// Bounded returns a function that calls fn, returns in time and does not panic; nil if fn is nil.
func Bounded(what string, fn func(ctx context.Context) (string, error)) func(ctx context.Context) (string, error) {
	if fn == nil {
		return nil
	}
	g := &base.Guest[string]{What: what, Wait: callWait}
	return func(ctx context.Context) (string, error) {
		limited, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		v, err := g.Call(ctx, limited, fn)
		if errors.Is(err, base.ErrOverdue) || errors.Is(err, base.ErrPanicked) {
			err = fmt.Errorf("%s: %w", what, err)
		}
		return v, err
	}
}

// differ reports whether two attributes differ. An empty attribute is unknown and equals any other.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// delayed plans one call at a time of the function ask, with a reason, after a delay.
type delayed struct {
	clock clock.WithTicker
	ask   func(reflector.Reason)

	mu    sync.Mutex
	timer clock.Timer    // timer is nil while no call is planned; mu guards timer and stop
	stop  chan struct{}  // stop ends the wait for timer
	wg    sync.WaitGroup // wg waits for the goroutines that wait for timers
}

func (d *delayed) after(delay time.Duration, reason reflector.Reason) {
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
			d.ask(reason)
		case <-stop:
		}
	})
}

func (d *delayed) cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		close(d.stop)
		d.timer, d.stop = nil, nil
	}
}

func (d *delayed) close() {
	d.cancel()
	d.wg.Wait()
}

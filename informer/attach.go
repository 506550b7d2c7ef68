package informer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store"
)

// attach opens the collection of i, or attaches i to the Informers that have it open. If those are about to end, attach
// waits for their end and then opens the collection.
func (i *Informer) attach(lw cache.ListerWatcher) error {
	ctx, cancel := context.WithTimeout(context.Background(), openWait)
	defer cancel()
	for {
		s := newShared(i, lw)
		err := s.open(ctx)
		if err == nil {
			s.admit(i)
		}
		close(s.opened)
		var open *store.CollectionOpenError
		if err == nil || !errors.As(err, &open) {
			return err
		}
		other, ok := open.Holder.(*sharedInformer)
		if !ok {
			return fmt.Errorf("%w: this program has opened it itself; close it first", err)
		}
		attached, refusal := other.attach(ctx, i)
		switch {
		case refusal != nil:
			return refusal
		case attached:
			return nil
		case ctx.Err() != nil || other.isStuck():
			return err
		}
	}
}

// admit attaches the first Informer to the collection that it has opened.
func (i *sharedInformer) admit(member *Informer) {
	member.shared, member.durable, member.first = i, durable.New(i.durableOptions()), true
	i.mu.Lock()
	defer i.mu.Unlock()
	i.attached = []*Informer{member}
	i.noteIndexesLocked(member, member.o.Indexers)
}

// attach adds member to the Informers that share the collection. It returns false if those are about to end. It fails
// if an option that all Informers of a collection share differs from the first Informer's.
func (i *sharedInformer) attach(ctx context.Context, member *Informer) (attached bool, err error) {
	select {
	case <-i.opened:
	case <-ctx.Done():
		return false, nil
	}
	if len(i.attachedNow()) == 0 { // an empty list means that opening failed, or that the run has ended
		return false, nil
	}
	if err := i.differs(member.o, member.example); err != nil {
		return false, err
	}
	handlers := durable.New(i.durableOptions())
	i.mu.Lock()
	if i.closingLocked() || i.stuck || len(i.attached) == 0 {
		i.mu.Unlock()
		return false, nil
	}
	member.shared, member.durable = i, handlers
	i.attached = append(slices.Clip(i.attached), member)
	i.mu.Unlock()
	if err := member.addIndexers(ctx, member.o.Indexers); err != nil {
		member.endNotified.Do(func() {}) // InformerMade was not called, so Close must not call InformerEnded
		return false, errors.Join(fmt.Errorf("%w by another informer, and they cannot share it: Options.Indexers: %w",
			store.ErrCollectionOpen, err), member.Close())
	}
	return true, nil
}

func (i *sharedInformer) differs(o Options, example any) error {
	for _, f := range []struct {
		name      string
		has, asks any
	}{
		{"the type of the example object", reflect.TypeOf(i.example), reflect.TypeOf(example)},
		{"Options.Codec", i.o.Codec.Name(), o.Codec.Name()},
		{"the fingerprint of Options.Codec", i.o.Codec.Fingerprint(), o.Codec.Fingerprint()},
		{"Options.TransformVersion", i.o.TransformVersion, o.TransformVersion},
		{"Options.Residency", i.o.Residency, o.Residency},
		{"Options.Compression", i.o.Compression, o.Compression},
		{"Options.History", i.o.History, o.History},
		{"Options.SyncPolicy", i.o.SyncPolicy, o.SyncPolicy},
		{"Options.AuditEvery", i.o.AuditEvery, o.AuditEvery},
	} {
		if f.has != f.asks {
			return fmt.Errorf("%w by another informer, and they cannot share it: %s is %s there, and %s here; set the "+
				"same, or end that informer first", store.ErrCollectionOpen, f.name, quoted(f.has), quoted(f.asks))
		}
	}
	return nil
}

func quoted(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}

// detach removes member from the Informers that share the collection. If it is the last Informer, detach leaves it
// attached and returns true, and the caller must end the run or close the collection.
func (i *sharedInformer) detach(member *Informer) (last bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.attached) == 1 {
		i.ending = true
		return true
	}
	i.attached, i.joined = without(i.attached, member), without(i.joined, member)
	return false
}

func (i *sharedInformer) closing() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.closingLocked()
}

// closingLocked reports whether the run, or every attached Informer, is about to end. It reads the Informers' contexts,
// because their goroutines may not have noticed the end yet.
func (i *sharedInformer) closingLocked() bool {
	switch {
	case i.stuck:
		return false
	case i.ending || i.ctx != nil && i.ctx.Err() != nil:
		return true
	}
	goesOn := func(member *Informer) bool { return !member.closing() }
	return len(i.attached) > 0 && !slices.ContainsFunc(i.attached, goesOn)
}

func (i *sharedInformer) isStuck() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stuck
}

// addIndexers adds index functions to the collection. It skips functions that another Informer has already added.
func (i *Informer) addIndexers(ctx context.Context, indexers cache.Indexers) error {
	s := i.shared
	if err := s.indexMu.LockContext(ctx); err != nil {
		return fmt.Errorf("another informer adds its indexes: %w", err)
	}
	defer s.indexMu.Unlock()
	have, missing := s.store.Indexers(), maps.Clone(indexers)
	for name, fn := range indexers {
		theirs := have[name] != nil && !i.indexed[name]
		version := i.o.IndexVersions[name]
		if theirs && (version != "" && version == s.indexVersions[name] || sameFunc(have[name], fn)) {
			delete(missing, name)
		}
	}
	if len(missing) > 0 {
		if err := s.store.AddIndexers(ctx, missing, i.o.IndexVersions); err != nil {
			return err
		}
	}
	s.noteIndexesLocked(i, indexers)
	return nil
}

// The caller of noteIndexesLocked holds indexMu, or is the only user of the collection.
func (i *sharedInformer) noteIndexesLocked(member *Informer, indexers cache.Indexers) {
	for name := range indexers {
		member.indexed[name] = true
		if i.indexVersions[name] == "" {
			i.indexVersions[name] = member.o.IndexVersions[name]
		}
	}
}

// capturing matches the names of functions that may have captured variables: literals, method values, and functions of
// reflect.MakeFunc.
var capturing = regexp.MustCompile(`\.func[0-9]|-fm$|^reflect\.`)

// sameFunc reports whether a and b are certainly the same function. Only declared functions can be compared by their
// address: closures with one address may have captured different variables.
func sameFunc(a, b any) bool {
	at := reflect.ValueOf(a).Pointer()
	return at == reflect.ValueOf(b).Pointer() && !capturing.MatchString(runtime.FuncForPC(at).Name())
}

// sameTransformLocked returns an error if the transform differs from the transform of the collection's run. Two
// functions with the same Options.TransformVersion count as the same. With the version Unversioned both must be the
// same declared (not anonymous) function.
func (i *sharedInformer) sameTransformLocked(transform cache.TransformFunc) error {
	switch {
	case (transform == nil) != (i.transform == nil):
		return fmt.Errorf("%w by another informer, and they cannot share it: SetTransform was called for one of the two "+
			"only", store.ErrCollectionOpen)
	case transform != nil && i.o.TransformVersion == Unversioned && !sameFunc(transform, i.transform):
		return fmt.Errorf("%w by another informer, and they cannot share it: its transform may be another function, since "+
			"Options.TransformVersion is informer.Unversioned; give the function a version", store.ErrCollectionOpen)
	}
	return nil
}

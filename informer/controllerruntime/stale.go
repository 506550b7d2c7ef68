package controllerruntime

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// refusingCache refuses lists of what is too old (informer.Options.RefuseAfter). Get, and List with a namespace or a field, get the error from the informer; a
// List of everything reads by a method that has none, and would find nothing.
type refusingCache struct {
	cache.Cache
	adapter *adapter
	scheme  *runtime.Scheme
}

// kindOf is what an informer holds.
type kindOf struct {
	schema.GroupVersionKind
	representation store.Representation
}

func (c refusingCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, c.scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	of := kindOf{gvk, representationOf(list)}
	if err := c.adapter.stale(of); err != nil {
		return err
	}
	if err := c.Cache.List(ctx, list, opts...); err != nil {
		return err
	}
	return c.adapter.stale(of) // it may have become so meanwhile
}

// noteAgeing remembers the informer, and forgets those that have stopped.
func (a *adapter) noteAgeing(of kindOf, inf *informer.Informer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ageing == nil {
		a.ageing = map[kindOf][]*informer.Informer{}
	}
	running := []*informer.Informer{inf}
	for _, other := range a.ageing[of] {
		if !other.IsStopped() {
			running = append(running, other)
		}
	}
	a.ageing[of] = running
}

// stale returns why one of the informers on a kind refuses to be read, or nil.
func (a *adapter) stale(of kindOf) error {
	a.mu.Lock()
	all := a.ageing[of]
	a.mu.Unlock()
	for _, inf := range all {
		if inf.IsStopped() { // it was removed, and whoever reads makes another
			continue
		}
		if err := inf.Stale(); err != nil {
			return err
		}
	}
	return nil
}

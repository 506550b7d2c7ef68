package factory

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// untypedInformer is an informers.GenericInformer of an untypedFactory.
type untypedInformer struct {
	informer cache.SharedIndexInformer
	lister   cache.GenericLister
	started  bool // the factory's mu guards started
}

func (i *untypedInformer) Informer() cache.SharedIndexInformer { return i.informer }

func (i *untypedInformer) Lister() cache.GenericLister { return i.lister }

// refusedLister is the lister of a resource for which no informer could be made; its methods fail with the reason. The
// lister of a refused informer's indexer would return an empty result.
type refusedLister struct{ err error }

func (l refusedLister) List(labels.Selector) ([]runtime.Object, error)  { return nil, l.err }
func (l refusedLister) Get(string) (runtime.Object, error)              { return nil, l.err }
func (l refusedLister) ByNamespace(string) cache.GenericNamespaceLister { return l }

package factory

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
)

var typedFlavor = flavor{
	name: "typed",
	ours: func(t *testing.T, c clients, o Options, types ...runtime.Object) subject {
		t.Helper()
		if types == nil {
			types = []runtime.Object{&corev1.Pod{}}
		}
		f, err := NewSharedInformerFactory(c.typed, 0, o, types...)
		must(t, err)
		return typedSubject(f)
	},
	stock: func(c clients, o Options) subject {
		return typedSubject(informers.NewSharedInformerFactoryWithOptions(c.typed, 0, o.stock()...))
	},
}

func typedSubject(f informers.SharedInformerFactory) subject {
	return subject{
		factory: f,
		forResource: func(gvr schema.GroupVersionResource) informers.GenericInformer {
			inf, err := f.ForResource(gvr)
			if err != nil {
				panic(err)
			}
			return inf
		},
		synced: func(stopCh <-chan struct{}) []bool { return slices.Collect(maps.Values(f.WaitForCacheSync(stopCh))) },
	}
}

var dynamicFlavor = flavor{
	name: "dynamic",
	ours: func(_ *testing.T, c clients, o Options, _ ...runtime.Object) subject {
		return untypedSubject(NewDynamicSharedInformerFactory(c.dynamic, 0, o))
	},
	stock: func(c clients, o Options) subject {
		return untypedSubject(dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, 0, o.Namespace,
			o.TweakListOptions))
	},
}

var metadataFlavor = flavor{
	name: "metadata",
	ours: func(_ *testing.T, c clients, o Options, _ ...runtime.Object) subject {
		return untypedSubject(NewMetadataSharedInformerFactory(c.metadata, 0, o))
	},
	stock: func(c clients, o Options) subject {
		return untypedSubject(metadatainformer.NewFilteredSharedInformerFactory(c.metadata, time.Duration(0), o.Namespace,
			o.TweakListOptions))
	},
}

func untypedSubject(f dynamicinformer.DynamicSharedInformerFactory) subject {
	return subject{
		factory:     f,
		forResource: f.ForResource,
		synced:      func(stopCh <-chan struct{}) []bool { return slices.Collect(maps.Values(f.WaitForCacheSync(stopCh))) },
	}
}

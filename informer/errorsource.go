package informer

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// errorSource makes the cache.Reflector that watch error handlers receive. It never runs, but its
// LastSyncResourceVersion is the informer's, because programs treat an informer with an empty one as not synced.
type errorSource struct {
	*cache.Reflector

	mu sync.Mutex
	at string // at is the resourceVersion of the next list; mu guards it
}

// singleLister is a ListerWatcher that lists with one request, without WatchList.
type singleLister struct{ *cache.ListWatch }

func (singleLister) IsWatchListSemanticsUnSupported() bool { return true }

func newErrorSource(example runtime.Object, o cache.ReflectorOptions) *errorSource {
	s := &errorSource{}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: s.at}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, errNothingToWatch
		},
	}
	s.Reflector = cache.NewReflectorWithOptions(singleLister{lw}, example, cache.NewStore(cache.MetaNamespaceKeyFunc), o)
	return s
}

// errNothingToWatch is the error of singleLister's watch: it ends the Reflector's ListAndWatch after its list.
var errNothingToWatch = errors.New("there is nothing to watch")

// reflectorAt returns a cache.Reflector whose LastSyncResourceVersion is resourceVersion. Only a list can set that, so
// the Reflector lists an empty result with that resourceVersion.
func (s *errorSource) reflectorAt(ctx context.Context, resourceVersion string) *cache.Reflector {
	s.mu.Lock()
	defer s.mu.Unlock()
	if resourceVersion != "" && resourceVersion != s.LastSyncResourceVersion() {
		s.at = resourceVersion
		ctx = klog.NewContext(context.WithoutCancel(ctx), logr.Discard())
		if err := s.ListAndWatchWithContext(ctx); !errors.Is(err, errNothingToWatch) {
			klog.FromContext(ctx).V(2).Info("The resourceVersion for watch error handlers was not set", "err", err)
		}
	}
	return s.Reflector
}

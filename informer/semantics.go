package informer

import (
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

// paging is a ListerWatcher that declares that it cannot send a list as a watch, as client-go's fakes do.
type paging struct{ cache.ListerWatcherWithContext }

func (paging) IsWatchListSemanticsUnSupported() bool { return true }

// withSemantics converts lw as client-go does, but keeps lw's declaration that it cannot send a list as a watch, which
// the conversion may hide.
func withSemantics(lw cache.ListerWatcher) cache.ListerWatcherWithContext {
	converted := cache.ToListerWatcherWithContext(lw)
	if watchlist.DoesClientNotSupportWatchListSemantics(lw) {
		return paging{converted}
	}
	return converted
}

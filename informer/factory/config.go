package factory

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
)

// connect returns a REST client for Config, completed by configFor as client-go's client does; nil if there is no
// Config. If RESTClient is not set, connect sets it to that client.
func (o *Options) connect(configFor func(*rest.Config) *rest.Config) (rest.Interface, error) {
	if o.Config == nil {
		return nil, nil
	}
	made, err := rest.UnversionedRESTClientFor(configFor(o.Config))
	if err != nil {
		return nil, fmt.Errorf("Options.Config: %w", err)
	}
	if missing(o.RESTClient) {
		o.RESTClient = made
	}
	return made, nil
}

// reading returns a ListerWatcher whose requests have the selectors of id, and the field selector of the reflector's
// look-ups. If made is not nil, the informer sends the requests with it and reads the answers itself.
func reading[L runtime.Object](made rest.Interface, client requests.Client[L], id entry.Identity) cache.ListerWatcher {
	lw := requests.ClientListWatch(client, id)
	if made == nil {
		return lw
	}
	return requests.WithRequest(lw,
		func(o metav1.ListOptions) *rest.Request { return requests.Request(made, id, o) })
}

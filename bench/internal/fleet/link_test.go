package fleet

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// link is an agent's connection to the model server: a cache.ListerWatcherWithContext with the retries of client-go's
// REST client.
type link struct {
	s        *server
	watching func()
}

// unlisting wraps a client so that client-go's reflector sends LIST requests instead of a WatchList.
type unlisting struct{ cache.ListerWatcher }

func (unlisting) IsWatchListSemanticsUnSupported() bool { return true }

// restRetries is the number of retries of client-go's REST client after Retry-After.
const restRetries = 10

// ask sends a request. Like net/http, it reports each answer to the caller's trace.
func (l link) ask(ctx context.Context, r request) error {
	for n := 0; ; n++ {
		err := l.s.serve(ctx, r)
		if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotFirstResponseByte != nil && ctx.Err() == nil {
			trace.GotFirstResponseByte()
		}
		seconds, ok := apierrors.SuggestsClientDelay(err)
		if !ok || n == restRetries {
			return err
		}
		if err := sleep(ctx, time.Duration(seconds)*time.Second); err != nil {
			return err
		}
	}
}

func (l link) get(ctx context.Context) error { return l.ask(ctx, request{cost: smallCost}) }

func (l link) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	switch {
	case o.FieldSelector != "":
		return l.lookUp(ctx, o.FieldSelector)
	case o.Limit == 1:
		return l.answer(l.get(ctx), 0, 1, "more")
	case o.Limit > 0 && o.ResourceVersion != "0": // with resourceVersion "0" the watch cache ignores the limit
		return l.page(ctx, o)
	}
	return l.answer(l.ask(ctx, request{cost: listCost, begins: true}), 0, kept, "")
}

func (l link) lookUp(ctx context.Context, selector string) (runtime.Object, error) {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return nil, err
	}
	name, _ := parsed.RequiresExactMatch("metadata.name")
	var i int
	if _, err := fmt.Sscanf(name, "pod-%d", &i); err != nil {
		return nil, err
	}
	return l.answer(l.get(ctx), i, i+1, "")
}

// page returns a page of a list. Costs and the continue token count the objects that the model stands for, not the
// objects in the page.
func (l link) page(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	from, _ := strconv.Atoi(o.Continue)
	n := min(int(o.Limit), objects-from)
	err := l.ask(ctx, request{cost: pageCost(n, from == 0), begins: from == 0})
	token := ""
	if from+n < objects {
		token = strconv.Itoa(from + n)
	}
	return l.answer(err, from*kept/objects, (from+n)*kept/objects, token)
}

func (l link) answer(err error, from, to int, token string) (runtime.Object, error) {
	if err != nil {
		return nil, err
	}
	at := l.s.now()
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(l.s.rv(at), 10), Continue: token}}
	for _, obj := range l.s.objects(at, from, to) {
		list.Items = append(list.Items, runtime.RawExtension{Object: obj})
	}
	return list, nil
}

func (l link) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	r := request{cost: smallCost, watch: true}
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	if initial {
		r = request{cost: watchListCost, watch: true, begins: true}
	}
	if err := l.ask(ctx, r); err != nil {
		return nil, err
	}
	rv, _ := strconv.ParseInt(o.ResourceVersion, 10, 64)
	end := time.Now().Add(time.Duration(*o.TimeoutSeconds) * time.Second)
	return l.s.watch(stream{rv: rv, initial: initial, end: end, accepted: l.watching}), nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

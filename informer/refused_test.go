package informer_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
)

func TestRefused(t *testing.T) {
	why := errors.New("the reason")
	r := informer.Refused(&corev1.Pod{}, why)
	for _, v := range []any{r, r.GetIndexer(), r.GetStore()} {
		failing := 0
		for m := range reflect.TypeOf(v).NumMethod() {
			method := reflect.ValueOf(v).Method(m)
			typ := method.Type()
			if typ.NumOut() == 0 || typ.Out(typ.NumOut()-1) != reflect.TypeFor[error]() {
				continue
			}
			failing++
			args := make([]reflect.Value, typ.NumIn())
			for i := range args {
				args[i] = reflect.Zero(typ.In(i))
			}
			out := method.Call(args)
			if err, _ := out[len(out)-1].Interface().(error); !errors.Is(err, why) {
				t.Errorf("%T.%s: %v", v, reflect.TypeOf(v).Method(m).Name, err)
			}
		}
		if failing < 7 {
			t.Errorf("%T has %d methods that can fail", v, failing)
		}
	}
	// Because of these errors a lister does not treat the refused informer as an empty cache.
	ix := r.GetIndexer()
	_, _, getErr := ix.GetByKey("a/1")
	_, byErr := ix.ByIndex(cache.NamespaceIndex, "a")
	for _, err := range []error{getErr, byErr, ix.AddIndexers(nil), r.AddIndexers(nil)} {
		if !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := informer.Refused(&corev1.Pod{}, why)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.RunWithContext(ctx) }()
		synctest.Wait()
		if r.HasSynced() || cache.IsDone(r.HasSyncedChecker()) || len(r.GetStore().List()) > 0 {
			t.Error("it has synced")
		}
		cancel()
		<-done
	})
}

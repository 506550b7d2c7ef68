package informer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/store"
)

// noFeed takes everything.
type noFeed struct{ feed }

func (noFeed) Place() (place store.Place, resets int, err error) { return place, 0, nil }

func (noFeed) Acknowledge(store.Place, int) error { return nil }

// An object that is made and deleted again and again, while a first change of its key fails, does not pile up in memory without bound.
func TestDurableHandlerHoldsSoManyChangesOfAKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		synced := make(chan struct{})
		close(synced)
		d := &durable{
			informer: &Informer{clock: clock.RealClock{}, synced: synced}, name: "h", works: map[string]*work{}, feed: noFeed{},
			handler: &callHandler{handler: DurableHandlerFuncs{ChangeFunc: func(context.Context, Change) error { return errRefused }}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		taken := 0
		for ; taken < 10*maxWorks && ctx.Err() == nil; taken++ {
			c := Change{Type: Delete, Key: "a/1", UID: fmt.Sprint(taken), Seq: uint64(taken + 1)}
			if err := d.take(ctx, c, func() { d.place.Seq = c.Seq }); err != nil {
				break
			}
		}
		if n := len(d.works["a/1"].changes); n > maxChanges || !d.status().Stalled {
			t.Errorf("it holds %d changes, status %+v", n, d.status())
		}
	})
}

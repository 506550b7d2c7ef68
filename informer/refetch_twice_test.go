package informer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// TestLostTwice: what a second repair has lost is still missing when the first has been made up for: so the file must not say that it is whole, nor the informer that it
// is live.
func TestLostTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for _, key := range []string{"a/1", "a/2", "a/3"} {
			r.srv.write(key, "x")
		}
		i := r.open()
		f := &failingFile{failed: make(chan struct{})}
		m := &fakeMender{failingFile: f, mended: []store.Mended{}}
		losses := 0
		i.failure, i.mendFile, i.losses = f, m, func() int { return losses }
		r.run()
		refuse := func(names string) {
			r.srv.setFail(func(verb string, o metav1.ListOptions) error {
				if name, isLookup := strings.CutPrefix(o.FieldSelector, "metadata.name="); isLookup && strings.Contains(names, name[:1]) {
					return errors.New("from the test")
				}
				return nil
			})
		}
		lose := func(key string) {
			op := store.Op{Type: store.Delete, Object: cache.DeletedFinalStateUnknown{Key: key}}
			if _, err := i.store.Apply(context.Background(), store.Batch{Ops: []store.Op{op}}); err != nil { // as a repair does
				t.Fatal(err)
			}
			losses++
			m.lost = []string{key}
			f.fail(store.ErrDamaged)
			synctest.Wait()
		}
		refuse("12")
		lose("a/1")
		lose("a/2")
		if s := i.Status(); s.Source != FromDisk {
			t.Errorf("the source is %s while two objects are missing", s.Source)
		}
		refuse("2")
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "store", r.stored(), []string{"a/1@101=x", "a/3@103=x"})
		if m.whole.Load() != 0 {
			t.Error("the file says that it is whole")
		}
		if s := i.Status(); s.Source != FromDisk || s.Reflector.Lists != 1 {
			t.Errorf("the source is %s while an object is missing; %d lists", s.Source, s.Reflector.Lists)
		}
		refuse("")
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "store", r.stored(), r.srv.state())
		if s := i.Status(); s.Source != Live || m.whole.Load() != 1 || s.Reflector.Lists != 1 {
			t.Errorf("in the end the source is %s, %d times marked as whole, %d lists", s.Source, m.whole.Load(), s.Reflector.Lists)
		}
		r.close()
	})
}

// TestFetchedBesideAList: a list has been asked for, since nobody knows what else is missing. What has been fetched before it came does not make up for that.
func TestFetchedBesideAList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.open()
		m := &fakeMender{}
		i.mendFile = m
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := i.start(ctx)
		p.lack(true)
		p.fetches = 1
		p.listAgain(ctx, reflector.ReasonDamaged)
		p.refetched(ctx, &examination{})
		if !p.lacking.Load() || m.whole.Load() != 0 {
			t.Errorf("lacking %v, marked as whole %d times, and the list has not come", p.lacking.Load(), m.whole.Load())
		}
		i.processor.stop()
		if err := i.giveBack(); err != nil {
			t.Error(err)
		}
		r.close()
	})
}

// mendedFile is a file whose failure is met at the moment when another informer repairs it.
type mendedFile struct {
	*failingFile
	mend func()
}

func (f *mendedFile) Err() error {
	err := f.failingFile.Err()
	if err != nil {
		f.mend()
		_ = f.rebuild(context.Background())
	}
	return err
}

// TestMendedByAnother: two informers meet the damage, and the one whose objects are lost is the second to have the file repaired. It fetches them all the same.
func TestMendedByAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Residency = store.None
		r.o.Indexers = cache.Indexers{"namespace": cache.MetaNamespaceIndexFunc}
		for n := range 5 {
			r.srv.write(fmt.Sprintf("a/%02d", n), "x")
		}
		r.start()
		r.close()
		storetest.Punch(t, r.path, "a/03")
		i := r.open()
		f := &mendedFile{failingFile: &failingFile{failed: make(chan struct{})}}
		f.mend = func() {
			if err := r.st.Scrub(context.Background()); !errors.Is(err, store.ErrDamaged) {
				t.Error(err)
			}
			if _, err := r.st.Mend(context.Background()); err != nil {
				t.Error(err)
			}
		}
		i.failure = f
		r.run()
		f.fail(store.ErrDamaged)
		synctest.Wait()
		r.srv.bookmark()
		synctest.Wait()
		equal(t, "store", r.stored(), r.srv.state())
		if s := i.Status(); s.Reflector.Lists > 0 || s.Source != Live {
			t.Errorf("%d lists, the source is %s", s.Reflector.Lists, s.Source)
		}
		r.close()
	})
}

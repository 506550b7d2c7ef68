package informer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// TestAttachRefused checks that the error names the option in which two informers on one collection differ.
func TestAttachRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Indexers = cache.Indexers{"label": func(any) ([]string, error) { return nil, nil }}
		r.o.TransformVersion, r.o.Residency = "1", store.All
		r.start()
		for want, change := range map[string]func(o *informer.Options){
			"Options.TransformVersion is \"1\" there, and \"2\" here": func(o *informer.Options) { o.TransformVersion = "2" },
			"Options.Residency":   func(o *informer.Options) { o.Residency = store.None },
			"Options.Compression": func(o *informer.Options) { o.Compression = store.Zstd },
			"Options.History":     func(o *informer.Options) { o.History = 1 << 20 },
			"Options.SyncPolicy":  func(o *informer.Options) { o.SyncPolicy = informer.Disk },
			"Options.AuditEvery":  func(o *informer.Options) { o.AuditEvery = time.Hour },
			"Options.Indexers: add indexes to pods.v1: indexer conflict: map[label:{}]": func(o *informer.Options) {
				o.Indexers = cache.Indexers{"label": func(any) ([]string, error) { return nil, nil }}
			},
		} {
			o := informer.OptionsOf(r.i)
			o.Indexers = nil
			change(&o)
			_, err := informer.New(r.srv, &corev1.Pod{}, o)
			if !errors.Is(err, store.ErrCollectionOpen) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		o := informer.OptionsOf(r.i)
		o.Indexers, o.Codec = nil, nil
		_, err := informer.New(r.srv, &corev1.ConfigMap{}, o)
		if !errors.Is(err, store.ErrCollectionOpen) || !strings.Contains(fmt.Sprint(err), "the type of the example object") {
			t.Error(err)
		}
		if s := r.i.Status(); s.Err != nil || s.Source != informer.Live {
			t.Errorf("the first: %+v", s)
		}
		r.close()
	})
}

func TestAttachTransform(t *testing.T) {
	strip := func(obj any) (any, error) { return obj, nil }
	for _, tt := range []struct {
		version       string
		first, second cache.TransformFunc
		refused       string
	}{
		{"1", strip, strip, ""},
		{"1", nil, nil, ""},
		{"1", strip, nil, "for one of the two only"},
		{"1", nil, strip, "for one of the two only"},
		{informer.Unversioned, strip, strip, "give the function a version"},
		{informer.Unversioned, declared, nil, "for one of the two only"},
		{informer.Unversioned, declared, declared, ""},
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			r.o.TransformVersion = tt.version
			r.srv.write("a/1", "x")
			first := shares(t, r.open())
			second := r.another()
			for i, fn := range map[*informer.Informer]cache.TransformFunc{first.i: tt.first, second.i: tt.second} {
				if fn == nil {
					continue
				}
				if err := i.SetTransform(fn); err != nil {
					t.Fatal(err)
				}
			}
			first.run()
			synctest.Wait()
			second.run()
			synctest.Wait()
			err := second.i.Status().Err
			if tt.refused == "" && err != nil || !strings.Contains(fmt.Sprint(err), tt.refused) {
				t.Errorf("%s: %v, want %q", tt.version, err, tt.refused)
			}
			if second.i.HasSynced() != (err == nil) || len(second.h.take()) > 0 != (err == nil) || len(first.h.take()) != 1 {
				t.Errorf("%s: synced %t, %v", tt.version, second.i.HasSynced(), err)
			}
			if first.i.Status().Err != nil {
				t.Error(first.i.Status().Err)
			}
			second.stop()
			first.stop()
			r.close()
		})
	}
}

func declared(obj any) (any, error) { return obj, nil }

// TestAttachIndexers checks that an equal function under an index's name is shared, and that another function is
// refused with client-go's error.
func TestAttachIndexers(t *testing.T) {
	byLabel := func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Labels["value"]}, nil }
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "label": byLabel}
		r.o.IndexVersions = map[string]string{"label": "1"}
		r.srv.write("a/1", "x")
		r.start()
		o := informer.OptionsOf(r.i)
		o.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "label": byLabel, "second": byLabel}
		i, err := informer.New(r.srv, &corev1.Pod{}, o)
		if err != nil {
			t.Fatal(err)
		}
		second := shares(t, i)
		second.run()
		synctest.Wait()
		for name, value := range map[string]string{cache.NamespaceIndex: "a", "label": "x", "second": "x"} {
			for _, i := range []*informer.Informer{r.i, i} {
				if got, err := i.GetIndexer().IndexKeys(name, value); err != nil || !slices.Equal(got, []string{"a/1"}) {
					t.Errorf("index %s: %q, %v", name, got, err)
				}
			}
		}
		for what, err := range map[string]error{
			"twice":           i.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
			"of the other":    r.i.AddIndexers(cache.Indexers{"second": byLabel}),
			"one of the two":  i.AddIndexers(cache.Indexers{"second": byLabel, "third": byLabel}),
			"another version": unversioned(r, o),
		} {
			if err == nil || !strings.Contains(err.Error(), "indexer conflict") {
				t.Errorf("%s: %v", what, err)
			}
		}
		second.stop()
		r.close()
	})
}

func unversioned(r *rig, o informer.Options) error {
	o.IndexVersions = nil
	_, err := informer.New(r.srv, &corev1.Pod{}, o)
	return err
}

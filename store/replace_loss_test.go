package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// TestRebuildWithinACommit checks that a list fails with ErrReplaceLost, or sets MustRelist, after a lossy rebuild.
func TestRebuildWithinACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, many, _ := filled(t, store.Options{})
		r, err := many.BeginReplace(t.Context(), store.ReplaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Abort()
		var all []runtime.Object
		for i := range 1000 {
			all = append(all, somePod(i))
		}
		if _, err := r.Page(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		patch(t, s, func(data []byte) {
			leaves := objectPages(t, data)
			clear(data[leaves[0] : leaves[0]+filePageSize])
		})
		commit := func() error {
			_, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: "9000"})
			return err
		}
		rebuilt, committed := inOrder(t, s, func() error { return s.Rebuild(context.Background()) }, commit)()
		if rebuilt != nil {
			t.Fatal(rebuilt)
		}
		flush(t, s)
		n, info := count(t, many)
		if committed != nil && !errors.Is(committed, store.ErrReplaceLost) || n < 1000 && info.MustRelist == "" {
			t.Errorf("%d objects are left, MustRelist %q, commit: %v", n, info.MustRelist, committed)
		}
		mustClose(t, s)
	})
}

// TestRebuildWithAnUncommittedList checks that a lossy rebuild right after an uncommitted list sets MustRelist.
func TestRebuildWithAnUncommittedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, many, _ := filled(t, store.Options{CommitInterval: time.Hour})
		r, err := many.BeginReplace(t.Context(), store.ReplaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var all []runtime.Object
		for i := range 1000 {
			all = append(all, somePod(i))
		}
		if _, err := r.Page(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "9000"}); err != nil {
			t.Fatal(err)
		}
		patch(t, s, func(data []byte) {
			leaves := objectPages(t, data)
			clear(data[leaves[0] : leaves[0]+filePageSize])
		})
		rebuilt, committed := inOrder(t, s, func() error { return s.Rebuild(context.Background()) },
			func() error { return s.Flush(context.Background()) })()
		if rebuilt != nil || committed != nil {
			t.Fatal(rebuilt, committed)
		}
		if n, info := count(t, many); n == 1000 || info.MustRelist == "" {
			t.Errorf("%d objects are left, MustRelist %q", n, info.MustRelist)
		}
		mustClose(t, s)
	})
}

// TestRebuildWithinAPage checks that a rebuild that loses nothing does not affect a running list.
func TestRebuildWithinAPage(t *testing.T) {
	for name, write := range map[string]func(r store.Replacement) error{
		"page": func(r store.Replacement) error {
			_, err := r.Page(context.Background(), []runtime.Object{somePod(2001)})
			return err
		},
		"event": func(r store.Replacement) error {
			_, err := r.Event(context.Background(), entry.Op{Object: somePod(2002)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, many, _ := filled(t, store.Options{})
				store.SetLimits(many, 1, store.CommitLimit(many))
				r, err := many.BeginReplace(t.Context(), store.ReplaceOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Abort()
				if _, err := r.Page(t.Context(), []runtime.Object{somePod(2000)}); err != nil {
					t.Fatal(err)
				}
				failNow(t, s)
				rebuild := func() error { return s.Rebuild(context.Background()) }
				rebuilt, written := inOrder(t, s, rebuild, func() error { return write(r) })()
				if rebuilt != nil || written != nil {
					t.Errorf("rebuild: %v, %v", rebuilt, written)
				}
				if _, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "9000"}); err != nil {
					t.Errorf("commit: %v", err)
				}
				if n, info := count(t, many); n != 2 || info.MustRelist != "" || info.ResourceVersion != "9000" {
					t.Errorf("%d objects, %+v", n, info)
				}
				if s.Err() != nil {
					t.Errorf("the new file is called damaged: %v", s.Err())
				}
				mustClose(t, s)
			})
		})
	}
}

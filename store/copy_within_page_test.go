package store_test

import (
	"context"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// TestCopyWithinAPage checks that the copy of the file after a write of unknown outcome does not affect a running list.
func TestCopyWithinAPage(t *testing.T) {
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
				copied, written := inOrder(t, s, func() error { return copyAgain(s) }, func() error { return write(r) })()
				if copied != nil || written != nil {
					t.Errorf("copy: %v, %v", copied, written)
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

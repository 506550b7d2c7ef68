package store

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// TestRebuildWithinACommit: another collection's writer rebuilds the store after a
// commit has looked whether anything was lost, and before it has its transaction.
func TestRebuildWithinACommit(t *testing.T) {
	s, many, _ := filled(t, Options{})
	r, err := many.BeginReplace(t.Context(), ReplaceOptions{})
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
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = r.(*replacement).mode.commit(t.Context(), Batch{ResourceVersion: "9000"})
	if n, info := count(t, many); !errors.Is(err, ErrReplaceLost) || n < 1000 && info.MustRelist == "" {
		t.Errorf("%d objects are left, MustRelist %q, commit: %v", n, info.MustRelist, err)
	}
}

// TestRebuildWithinAPage is the same for a page and an event of a list that is staged in
// the file: that the new file does not have it is no damage.
func TestRebuildWithinAPage(t *testing.T) {
	s, many, _ := filled(t, Options{})
	many.limits.staging = 1
	r, err := many.BeginReplace(t.Context(), ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Abort()
	if _, err := r.Page(t.Context(), []runtime.Object{somePod(2000)}); err != nil {
		t.Fatal(err)
	}
	s.failNow(ErrOutcomeUnknown)
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	mode := r.(*replacement).mode
	if _, err := mode.page(t.Context(), opsOf([]runtime.Object{somePod(2001)}, nil)); !errors.Is(err, ErrReplaceLost) {
		t.Errorf("page: %v", err)
	}
	if _, err := mode.event(t.Context(), Op{Object: somePod(2002)}); !errors.Is(err, ErrReplaceLost) {
		t.Errorf("event: %v", err)
	}
	if s.Err() != nil {
		t.Errorf("the new file is called damaged: %v", s.Err())
	}
}

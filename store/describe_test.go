package store_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// TestDescribe checks that Describe, which sets a collection's ResourceInfo, takes effect at once and stays after a
// restart. Fields that a later Describe does not set keep their values; empty slices remove categories and columns.
func TestDescribe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := mustOpen(t, path, store.Options{})
	c := mustCollection(t, s, pods())
	column := entry.Column{Name: "Size", Type: "integer", JSONPath: ".spec.size", Priority: 1}
	want := entry.ResourceInfo{Kind: "Pod", Singular: "pod", ShortNames: []string{"po"}, Namespaced: true,
		Categories: []string{"all"}, Columns: []entry.Column{column}, Deprecated: "do not use it"}
	if err := s.Describe(t.Context(), pods(), want); err != nil {
		t.Fatal(err)
	}
	check := func(want entry.ResourceInfo) {
		t.Helper()
		infos, err := s.Collections(t.Context())
		if err != nil || len(infos) != 1 {
			t.Fatal(infos, err)
		}
		if d := cmp.Diff(want, infos[0].Resource); d != "" {
			t.Error(d)
		}
	}
	check(want)
	written := s.Written()
	if err := s.Describe(t.Context(), pods(), want); err != nil || s.Written() != written {
		t.Errorf("what is known was written again: %d bytes, %v", s.Written()-written, err)
	}
	if err := s.Describe(t.Context(), pods(), entry.ResourceInfo{Kind: "Pod", Singular: "pod", ShortNames: []string{"po"},
		Namespaced: true}); err != nil {
		t.Fatal(err)
	}
	check(want)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = mustCollection(t, s, pods())
	applyOne(t, c)
	check(want)
	none := want
	none.Columns, none.Categories, none.Deprecated = []entry.Column{}, []string{}, ""
	if err := s.Describe(t.Context(), pods(), none); err != nil {
		t.Fatal(err)
	}
	none.Columns, none.Categories = nil, nil
	check(none)
	other := pods()
	other.Namespace = "other"
	if err := s.Describe(t.Context(), other, want); !errors.Is(err, store.ErrNoCollection) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestResourceInfoWith(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "s"), store.Options{})
	mustCollection(t, s, pods())
	now := entry.ResourceInfo{Kind: "Zone", Singular: "zone", Columns: []entry.Column{{Name: "A"}}, Deprecated: "no"}
	for _, learned := range []entry.ResourceInfo{{Kind: "Zone", Singular: "zone"},
		{Kind: "Zone", Singular: "zone", Deprecated: "no"}, now,
		{Kind: "Zone", Singular: "zone", ShortNames: []string{"z"}}} {
		if err := s.Describe(t.Context(), pods(), learned); err != nil {
			t.Fatal(err)
		}
	}
	infos, err := s.Collections(t.Context())
	if err != nil || len(infos) != 1 {
		t.Fatal(infos, err)
	}
	now.ShortNames = []string{"z"}
	if d := cmp.Diff(now, infos[0].Resource); d != "" {
		t.Error(d)
	}
}

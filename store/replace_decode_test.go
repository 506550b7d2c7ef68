package store_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// oneWay is a codec that encodes all pods, but cannot decode one of them.
type oneWay struct {
	codec.Codec
	unreadable string
}

func (c oneWay) Decode(data []byte) (runtime.Object, error) {
	obj, err := c.Codec.Decode(data)
	if err == nil && obj.(*corev1.Pod).Name == c.unreadable {
		return nil, entry.ErrDamaged
	}
	return obj, err
}

// TestRelistOfAnUnreadableObject checks that a list leaves out and reports an object that cannot be decoded again, and
// that this does not count as damage of the file.
func TestRelistOfAnUnreadableObject(t *testing.T) {
	s, many, _ := filled(t, store.Options{})
	mustEnd(t, many)
	many, err := s.Collection(t.Context(), pods(), store.CollectionOptions{
		Residency: store.None, Codec: oneWay{mustCodec(t, &corev1.Pod{}), somePod(2).Name},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := many.BeginReplace(t.Context(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Abort()
	var page []runtime.Object
	for i := range 4 {
		pod := somePod(i)
		pod.ResourceVersion = "9000"
		page = append(page, pod)
	}
	if _, err := r.Page(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	res, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "9001"})
	if err != nil || len(res.Changes) != 3+996 || len(res.Skipped) != 1 ||
		!errors.Is(res.Skipped[0].Err, entry.ErrIncompatible) {
		t.Errorf("%d changes, skipped %v: %v", len(res.Changes), res.Skipped, err)
	}
	if s.Err() != nil {
		t.Errorf("Err: %v", s.Err())
	}
	info, err := many.Info(t.Context())
	if err != nil || info.Objects != 4 || info.ResourceVersion != "9001" || len(info.Newest) != 3 {
		t.Errorf("%+v, %v", info, err)
	}
	if report, err := s.Check(t.Context()); err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %q, %v", report.Problems, err)
	}
}

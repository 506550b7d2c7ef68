package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/entry"
)

// What is not damaged is read, also through the socket; what is damaged is named if it was asked for.
func TestEachGetsPastDamage(t *testing.T) {
	ctx := context.Background()
	web := map[string]string{"app": "web"}
	r := newFakeReader(pod("a", "x", nil), pod("b", "x", nil), pod("b", "y", nil), pod("c", "x", nil), pod("c", "y", web))
	r.damaged = []string{"b/x", "c/x"}
	file := &fakeSource{collections: map[string]*fakeReader{"c": r}}
	client, _ := serve(t, file)
	for _, src := range []Source{file, client} {
		for _, tc := range []struct {
			q        Query
			want     []string
			problems []string
		}{
			{Query{}, []string{"a/x", "b/y", "c/y"}, []string{"b/x", "c/x"}},
			{Query{Namespace: "b"}, []string{"b/y"}, []string{"b/x"}},
			{Query{Namespace: "a"}, []string{"a/x"}, nil},
			{Query{Namespace: "b", Name: "x"}, []string{}, []string{"b/x"}},
			{Query{Selector: "app=web"}, []string{"c/y"}, []string{"b/x", "c/x"}},
			{Query{Namespace: "b", Fields: "metadata.name=z"}, []string{}, []string{"b/x"}},
		} {
			tc.q.Collection = "c"
			got, err := collect(ctx, src, tc.q)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%T %+v: %s", src, tc.q, d)
			}
			var unreadable *UnreadableError
			if errors.As(err, &unreadable) != (len(tc.problems) > 0) || (err != nil) != (len(tc.problems) > 0) {
				t.Errorf("%T %+v: got %v", src, tc.q, err)
			}
			for _, p := range tc.problems {
				if !errors.Is(err, entry.ErrDamaged) || !strings.Contains(err.Error(), p) || unreadable.Count != len(tc.problems) {
					t.Errorf("%T %+v: got %v, want one that names %s", src, tc.q, err, p)
				}
			}
		}
	}
	stop := errors.New("no paper")
	if err := Each(ctx, r, Query{}, func(*unstructured.Unstructured) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

func TestUnreadableErrorIsBounded(t *testing.T) {
	var all UnreadableError
	for i := range 100 {
		all.Merge(&UnreadableError{Count: 1, Problems: []string{fmt.Sprint("record ", i)}})
	}
	text := all.Error()
	if !strings.HasPrefix(text, "100 objects could not be read:\n  record 0\n") ||
		!strings.HasSuffix(text, "record 19\n  … and 80 more") {
		t.Error(text)
	}
}

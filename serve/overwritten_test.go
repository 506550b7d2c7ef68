//go:build unix

package serve_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/store"
)

// TestServeAnOverwrittenFile checks that requests return 503 with the cause after the store's file was overwritten
// (issue 37).
func TestServeAnOverwrittenFile(t *testing.T) {
	w := newWorld(t, nil)
	client := w.client().CoreV1().Pods("a")
	if _, err := client.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	other, err := store.Open(w.path+"-other", store.Options{})
	must(t, err)
	must(t, other.Close())
	backup, err := os.ReadFile(w.path + "-other")
	must(t, err)
	must(t, os.WriteFile(w.path, backup, 0o600)) // WriteFile overwrites the file without replacing it, like cp
	_, listErr := client.List(t.Context(), metav1.ListOptions{})
	_, getErr := client.Get(t.Context(), "x", metav1.GetOptions{})
	for what, err := range map[string]error{"list": listErr, "get": getErr} {
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), store.ErrOverwritten.Error()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := w.store.Close(); !errors.Is(err, store.ErrOverwritten) {
		t.Errorf("close the store: %v", err)
	}
}

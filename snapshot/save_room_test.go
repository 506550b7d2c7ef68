package snapshot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/store"
)

// fullDisk is a store on a disk without room. tried are the places that it was to be copied to.
type fullDisk struct {
	tried []string
}

func (f *fullDisk) CopyFile(_ context.Context, base string) (string, error) {
	if f.tried = append(f.tried, base); base == "" {
		return "", store.ErrNoSpace
	}
	return base + ".new-x", nil
}

// TestCopyOfAnEncryptedSaveStaysBesideTheStore: the copy is not encrypted, and what is beside the snapshot may be another medium.
func TestCopyOfAnEncryptedSaveStaysBesideTheStore(t *testing.T) {
	plain, encrypted := &fullDisk{}, &fullDisk{}
	if name, err := copyToSave(t.Context(), plain, "a.larder", false); name != "a.larder.new-x" || err != nil {
		t.Errorf("not encrypted: %q, %v", name, err)
	}
	name, err := copyToSave(t.Context(), encrypted, "a.larder", true)
	if name != "" || !errors.Is(err, store.ErrNoSpace) || !strings.HasSuffix(err.Error(), "make room beside the store") {
		t.Errorf("encrypted: %q, %v", name, err)
	}
	if want := []string{""}; !slices.Equal(encrypted.tried, want) {
		t.Errorf("encrypted: it was copied to %q", encrypted.tried)
	}
}

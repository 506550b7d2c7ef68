package informer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/store"
)

// TestCompression checks that an informer without compression resumes from a compressed file.
func TestCompression(t *testing.T) {
	written := map[store.Compression]int64{}
	for _, compression := range []store.Compression{store.NoCompression, store.Zstd} {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			r.o.Compression = compression
			for i := range 800 {
				r.srv.write(fmt.Sprintf("a/%03d", i), strings.Repeat("what labels have in common ", 60))
			}
			r.start()
			want := r.stored()
			written[compression] = r.st.Written()
			r.close()

			r.o.Compression = store.NoCompression
			i := r.start()
			if got := r.stored(); len(got) != 800 || !slices.Equal(got, want) {
				t.Errorf("%d objects", len(got))
			}
			if s := i.Status(); len(s.Reflector.Relists) != 0 || s.Reflector.Resumes != 1 {
				t.Errorf("%d resumes, relists %v", s.Reflector.Resumes, s.Reflector.Relists)
			}
			r.close()
		})
	}
	if 2*written[store.Zstd] > written[store.NoCompression] {
		t.Errorf("bytes written: %v", written)
	}
}

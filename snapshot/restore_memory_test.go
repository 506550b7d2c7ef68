package snapshot_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// longMarks returns a snapshot of small payloads with UIDs, resourceVersions and encodings of the maximum length.
func longMarks(blocks, records int) []byte {
	longest := strings.Repeat("m", maxMark)
	var file rawCollection
	for b := range blocks {
		var all []entry.Entry
		for n := range records {
			all = append(all, entry.Entry{Key: fmt.Sprintf("a/%03d-%03d", b, n), UID: longest, ResourceVersion: longest,
				Encoding: longest})
		}
		raw := rawOf(all...)
		raw.stored = encoder().EncodeAll(raw.stored, nil)
		file.blocks = append(file.blocks, raw)
	}
	file.text = podsText + fmt.Sprintf(`,"objects":%d,"blocks":%d`, blocks*records, blocks)
	return rawFile{collections: []rawCollection{file}}.bytes()
}

// TestRestoreIsBounded checks that Restore bounds its memory by payloads and by UIDs, resourceVersions and encodings.
func TestRestoreIsBounded(t *testing.T) {
	const blocks, records = 200, 100
	data := longMarks(blocks, records)
	runtime.GC()
	p := &peak{start: liveBytes()}
	path := filepath.Join(t.TempDir(), "a.db")
	restored, err := restoreBytes(t, data, path,
		snapshot.RestoreOptions{Progress: func(now snapshot.Progress) {
			if now.Objects%(4*progressEvery) == 0 {
				p.tick()
			}
		}})
	if err != nil || restored.Objects != blocks*records {
		t.Fatal(restored.Objects, err)
	}
	t.Logf("%d MiB of records of a file of %d KiB took %d MiB", blocks*records*3*maxMark>>20, len(data)>>10, p.most>>20)
	if limit := int64(32 << 20); p.most > limit {
		t.Errorf("%d bytes were in use, %d are allowed", p.most, limit)
	}
}

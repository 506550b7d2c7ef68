package snapshot_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// longMarks is a snapshot of records whose UIDs, resourceVersions and encodings are as long as they may be.
func longMarks(blocks, records int) []byte {
	longest := strings.Repeat("m", maxMark)
	var parts [][]byte
	for b := range blocks {
		var body []byte
		key := func(n int) string { return fmt.Sprintf("a/%03d-%03d", b, n) }
		for n := range records {
			body = appendRecord(body, entry.Entry{Key: key(n), UID: longest, ResourceVersion: longest, Encoding: longest})
		}
		parts = append(parts, part(kindBlock, flagPack,
			string(blockHead{count: uint64(records), first: key(0), last: key(records - 1)}.append(nil)), body))
	}
	return framesOf(bytes.Join([][]byte{
		part(kindManifest, 0, "", "{}"), part(kindCollection, 0, "\x00", podsText+"}"), bytes.Join(parts, nil),
		part(kindPage, 0, "\x00", ""),
		part(kindEnd, 0, "\x00", podsText+fmt.Sprintf(`,"objects":%d,"blocks":%d}`, blocks*records, blocks)),
		part(kindTail, 0, "", ""),
	}, nil))
}

// TestRestoreIsBounded: what takes memory beside the payloads, each as long as it may be, is counted too: it is written
// at the end of some MiB, and not of the file.
func TestRestoreIsBounded(t *testing.T) {
	const blocks, records = 200, 100
	data := longMarks(blocks, records)
	runtime.GC()
	p := &peak{start: liveBytes()}
	path := filepath.Join(t.TempDir(), "a.db")
	restored, err := snapshot.RestoreFrom(t.Context(), bytes.NewReader(data), path,
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

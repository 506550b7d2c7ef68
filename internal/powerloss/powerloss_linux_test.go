//go:build amd64 || arm64

package powerloss_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/internal/powerloss"
)

var (
	images = flag.Int("powerloss.images", 0, "how many to open; 200 by default, with LARDER_SOAK=1 20000")
	seed   = flag.Uint64("powerloss.seed", 1, "of the choice of images")
)

// TestPowerLoss checks that the store opens after a power loss at any moment, whichever unsynced ops survive. The store
// must have all commits that had returned, and the state after some event of each stream. Snapshot files and restored
// stores must be complete, too. The test also checks that it detects a disk that does not sync files or directories.
func TestPowerLoss(t *testing.T) {
	record := mustRun(t, tempDir(t), "store", "kill-commit", "kill-compaction", "resume")
	t.Run("Images", func(t *testing.T) { testImages(t, record, choose(record, numberOfImages(), *seed)) })
	t.Run("OnlyWhatWasSynced", func(t *testing.T) { testImages(t, record, ends(record)) })
	t.Run("SyncedAfterAKill", func(t *testing.T) { testSyncedAfterAKill(t, record) })
	t.Run("IgnoreSync", func(t *testing.T) { testFaults(t, record, powerloss.Faults{IgnoreSync: true}) })
	t.Run("IgnoreDirSync", func(t *testing.T) { testFaults(t, record, powerloss.Faults{IgnoreDirSync: true}) })
}

func testFaults(t *testing.T, record []powerloss.Op, faults powerloss.Faults) {
	var found error
	disk := powerloss.NewDisk(record, faults)
	each(t, record, disk, choose(record, 200, *seed), func(_ image, _ promise, _ string, err error) bool {
		found = err
		return err == nil
	})
	if found == nil {
		t.Error("it was not found")
	}
	t.Log(found)
}

func numberOfImages() int {
	switch {
	case *images > 0:
		return *images
	case os.Getenv("LARDER_SOAK") == "1":
		return 20_000
	}
	return 200
}

// testImages checks that the store recovers from the chosen images, and that each class of work occurs among them. It
// keeps the files of the first bad image.
func testImages(t *testing.T, record []powerloss.Op, chosen []image) {
	classes, bad := map[string]int{}, 0
	disk := powerloss.NewDisk(record, powerloss.Faults{})
	each(t, record, disk, chosen, func(i image, p promise, fates string, err error) bool {
		classes[p.class]++
		if err == nil {
			return true
		}
		t.Errorf("%s, image %d of -powerloss.seed %d, after %d of %d operations, %s: %v",
			p.class, i.number, *seed, i.at, len(record), fates, err)
		if bad++; bad == 1 {
			dir, err := os.MkdirTemp("", "larder-powerloss-image-")
			if err == nil {
				_, err = disk.Image(dir, i.random())
			}
			t.Logf("image %d is kept in %s (%v)", i.number, dir, err)
		}
		return bad < 10
	})
	t.Logf("%d images of %d operations: %v", len(chosen), len(record), classes)
	for class := range momentsOf(record) {
		if classes[class] == 0 && bad == 0 {
			t.Errorf("no image is of %q", class)
		}
	}
}

// testSyncedAfterAKill checks that a process syncs the writes of a killed predecessor before it writes to the file.
// Otherwise the page cache shows a commit that a power loss removes, together with pages of the previous commit.
func testSyncedAfterAKill(t *testing.T, record []powerloss.Op) {
	written, synced, began := map[int]int{}, map[int]bool{}, 0
	for i, op := range record {
		switch op.Kind {
		case powerloss.Mark:
			switch op.Text {
			case "class open after a kill":
				began = i
			case survived:
				t.Error("a process that should have been killed was not")
			}
		case powerloss.Sync:
			synced[op.File] = true
			if written[op.File] < op.Since {
				delete(written, op.File)
			}
		case powerloss.Write:
			// A write to a file that no process ever syncs, such as the store's .opening file, is no error.
			if before, ok := written[op.File]; ok && before < began && synced[op.File] {
				t.Fatalf("operation %d writes to file %d, of which operation %d of a process that was killed is not synced",
					i, op.File, before)
			}
			written[op.File] = i
		}
	}
}

// image is a state of the disk after a power loss: a point in the op log, and the choice of the unsynced ops that
// survive.
type image struct {
	number, at int
	least      bool // whether only synced ops survive
}

// random returns the random source for the choice of the unsynced ops that survive, or nil if none survive.
func (i image) random() *rand.Rand {
	if i.least {
		return nil
	}
	return rand.New(rand.NewPCG(*seed, uint64(i.number)))
}

func choose(record []powerloss.Op, n int, seed uint64) []image {
	classes := momentsOf(record)
	names := slices.Sorted(maps.Keys(classes))
	random := rand.New(rand.NewPCG(seed, 0))
	var all []image
	for i := range n {
		in := classes[names[i%len(names)]]
		moments := in.all
		if random.IntN(2) == 0 && len(in.synced) > 0 {
			moments = in.synced
		}
		all = append(all, image{number: i, at: moments[random.IntN(len(moments))]})
	}
	slices.SortFunc(all, func(a, b image) int { return a.at - b.at })
	return all
}

// ends returns an image of the end of each step. Only synced ops survive in these images.
func ends(record []powerloss.Op) (all []image) {
	for i, op := range record {
		if strings.HasPrefix(op.Text, "class ") {
			all = append(all, image{number: len(all), at: i, least: true})
		}
	}
	return append(all, image{number: len(all), at: len(record), least: true})
}

// moments are the points in the op log that belong to a class of work: after each op, and right before each sync.
type moments struct{ all, synced []int }

func momentsOf(record []powerloss.Op) map[string]*moments {
	found := map[string]*moments{}
	var in *moments
	for i, op := range record {
		class, begins := strings.CutPrefix(op.Text, "class ")
		switch {
		case begins:
			if in = found[class]; in == nil {
				in = &moments{}
				found[class] = in
			}
		case op.Kind == powerloss.Sync:
			in.synced = append(in.synced, i)
			fallthrough
		default:
			in.all = append(in.all, i+1)
		}
	}
	return found
}

// each writes and checks the images in turn. It passes each image and its problems (err) to then, and stops when then
// returns false.
func each(
	t *testing.T, record []powerloss.Op, disk *powerloss.Disk, all []image,
	then func(i image, p promise, fates string, err error) bool,
) {
	dir := tempDir(t)
	for _, i := range all {
		p, err := promiseAt(record, i.at)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, fmt.Sprint(i.number))
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		disk.Advance(i.at)
		fates, err := disk.Image(at, i.random())
		if err != nil {
			t.Fatal(err)
		}
		err = checkImage(t.Context(), at, p)
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		if !then(i, p, fates, err) {
			return
		}
	}
}

package powerloss

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Image writes one of the states in which a power loss at this moment may leave the disk to dir, which must be empty.
// random selects the state; with nil only synced ops survive. fates describes the lost ops of each file, for error
// messages.
func (d *Disk) Image(dir string, random *rand.Rand) (fates string, err error) {
	var lost []string
	err = d.writeDir(d.files[Root], dir, func(f *file, name string) fate {
		fate := newFate(random, len(f.pending))
		if len(f.pending) > 0 {
			name = "." + strings.TrimPrefix(name, dir)
			lost = append(lost, fmt.Sprintf("%s: of %d operations %s", name, len(f.pending), fate))
		}
		return fate
	})
	return strings.Join(lost, "; "), err
}

func (d *Disk) writeDir(f *file, path string, choose func(f *file, path string) fate) error {
	names := maps.Clone(f.names)
	fate := choose(f, path)
	for n, i := range f.pending {
		if fate.survives(n) {
			rename(names, d.record[i].Names)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		child, to := d.files[names[name]], filepath.Join(path, name)
		if child.dir {
			if err := os.Mkdir(to, 0o700); err != nil {
				return err
			}
			if err := d.writeDir(child, to, choose); err != nil {
				return err
			}
			continue
		}
		if err := writeSparse(to, d.content(child, choose(child, to))); err != nil {
			return err
		}
	}
	return nil
}

// content returns the surviving content of a file. The slice is valid until the next call.
func (d *Disk) content(f *file, fate fate) []byte {
	data := append(d.spare[:0], f.data...)
	size := int64(len(data))
	for n, i := range f.pending {
		switch op := d.record[i]; {
		case op.Kind == Write:
			data = apply(data, op, func() bool { return fate.sectorSurvives(n) })
			size = fate.grow(n, size, sizeAfter(size, op))
		case fate.survives(n):
			data, size = apply(data, op, nil), op.Offset
		}
	}
	d.spare = data
	return resize(data, size)
}

func writeSparse(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var zeros [4096]byte
	for at := 0; at < len(data); at += len(zeros) {
		page := data[at:min(at+len(zeros), len(data))]
		if string(page) == string(zeros[:len(page)]) {
			continue
		}
		if _, err := f.WriteAt(page, int64(at)); err != nil {
			return err
		}
	}
	return f.Truncate(int64(len(data)))
}

type fate struct {
	random *rand.Rand
	how    int
	// cut is the number of surviving ops if how is inOrder.
	cut    int
	chance float64
	kept   []bool
}

const (
	all = iota
	none
	inOrder // the first ops survive, and a part of the next op
	some    // each op survives or not, independently
	torn    // each sector of a write survives or not, independently
	ways
)

func newFate(random *rand.Rand, ops int) fate {
	if random == nil {
		return fate{how: none}
	}
	f := fate{random: random, how: random.IntN(ways), cut: random.IntN(ops + 1)}
	f.chance = []float64{0.1, 0.5, 0.9}[random.IntN(3)]
	for range ops {
		f.kept = append(f.kept, random.Float64() < f.chance)
	}
	return f
}

func (f fate) String() string {
	switch f.how {
	case all:
		return "all survive"
	case none:
		return "none survives"
	case inOrder:
		return fmt.Sprintf("the first %d survive, and a part of the next", f.cut)
	case some:
		return fmt.Sprintf("these survive: %v", f.kept)
	}
	return fmt.Sprintf("sectors survive with probability %.1f", f.chance)
}

// survives reports whether an op that survives completely or not at all survives.
func (f fate) survives(op int) bool {
	switch f.how {
	case all:
		return true
	case none:
		return false
	case inOrder:
		return op < f.cut
	}
	return f.kept[op]
}

func (f fate) sectorSurvives(op int) bool {
	if f.how == torn || f.how == inOrder && op == f.cut {
		return f.random.Float64() < f.chance
	}
	return f.survives(op)
}

// grow returns the size of a file after a write that would extend the file. Only a part of the extension may survive.
func (f fate) grow(op int, from, to int64) int64 {
	switch {
	case f.how == all, f.how == inOrder && op < f.cut:
		return to
	case f.how == none, f.how == inOrder && op > f.cut, f.random.IntN(3) == 0:
		return from
	case f.random.IntN(2) == 0:
		return to
	}
	return from + f.random.Int64N((to-from)/sector+1)*sector
}

package powerloss

import "slices"

// Faults make a simulated disk lose synced data. Tests use them to verify that the checks find lost data.
type Faults struct {
	// IgnoreSync makes fsync and fdatasync of files do nothing.
	IgnoreSync bool
	// IgnoreDirSync makes fsync of directories do nothing.
	IgnoreDirSync bool
}

// Disk is the state of a disk after the first at ops of an op log: the durable contents, and the ops that may be lost.
type Disk struct {
	record []Op
	faults Faults
	at     int
	files  map[int]*file
	// spare is the buffer for the file contents that Image writes.
	spare []byte
}

type file struct {
	dir bool
	// data is the durable content of a file; names are the durable entries of a directory.
	data  []byte
	names map[string]int
	// pending are the indexes of the ops that may be lost, in ascending order.
	pending []int
}

// NewDisk returns a disk before the first op of the op log, with an empty root directory.
func NewDisk(record []Op, faults Faults) *Disk {
	return &Disk{record: record, faults: faults, files: map[int]*file{Root: {dir: true, names: map[string]int{}}}}
}

func (d *Disk) At() int { return d.at }

// Advance replays the op log up to its first at ops. The disk cannot go back.
func (d *Disk) Advance(at int) {
	for ; d.at < at; d.at++ {
		switch op := d.record[d.at]; op.Kind {
		case Names:
			for _, n := range op.Names {
				d.make(n)
			}
			fallthrough
		case Write, Truncate:
			f := d.files[op.File]
			f.pending = append(f.pending, d.at)
		case Sync:
			d.sync(d.files[op.File], op.Since)
		}
	}
}

// make adds the file of a new directory entry, unless the disk has that file.
func (d *Disk) make(n Name) {
	if n.File == 0 || d.files[n.File] != nil {
		return
	}
	d.files[n.File] = &file{dir: n.Dir, names: map[string]int{}}
}

// sync makes the pending ops of f durable that precede op number since of the op log.
func (d *Disk) sync(f *file, since int) {
	if f.dir && d.faults.IgnoreDirSync || !f.dir && d.faults.IgnoreSync {
		return
	}
	n, _ := slices.BinarySearch(f.pending, since)
	for _, i := range f.pending[:n] {
		if op := d.record[i]; f.dir {
			rename(f.names, op.Names)
		} else {
			f.data = resize(apply(f.data, op, nil), sizeAfter(int64(len(f.data)), op))
		}
	}
	f.pending = slices.Clone(f.pending[n:])
}

func rename(names map[string]int, changes []Name) {
	for _, n := range changes {
		if names[n.Name] = n.File; n.File == 0 {
			delete(names, n.Name)
		}
	}
}

func sizeAfter(size int64, op Op) int64 {
	if op.Kind == Truncate {
		return op.Offset
	}
	return max(size, op.Offset+int64(len(op.Data)))
}

// sector is the number of bytes that a disk writes completely or not at all.
const sector = 512

// apply applies an op to the content data, and returns the result, which may be longer than data. keep decides for each
// sector of a write whether it is applied; nil applies all.
func apply(data []byte, op Op, keep func() bool) []byte {
	if op.Kind == Truncate {
		if op.Offset < int64(len(data)) {
			clear(data[op.Offset:])
		}
		return data
	}
	for done := int64(0); done < int64(len(op.Data)); {
		from := op.Offset + done
		n := min(sector-from%sector, int64(len(op.Data))-done)
		if keep == nil || keep() {
			data = resize(data, max(int64(len(data)), from+n))
			copy(data[from:], op.Data[done:done+n])
		}
		done += n
	}
	return data
}

func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size]
	}
	old := len(data)
	data = slices.Grow(data, int(size)-old)[:size]
	clear(data[old:])
	return data
}

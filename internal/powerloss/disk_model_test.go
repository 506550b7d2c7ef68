package powerloss

import "slices"

// Faults make a simulated disk lose synced data. Tests use them to verify that the checks find lost data.
type Faults struct {
	// IgnoreSync: fsync and fdatasync of a file do nothing.
	IgnoreSync bool
	// IgnoreDirSync: fsync of a directory does nothing.
	IgnoreDirSync bool
}

// Disk is the state of a disk after the first ops of a record have returned: its durable contents and the ops that may
// be lost.
type Disk struct {
	record []Op
	faults Faults
	at     int
	files  map[int]*file
	// spare is the buffer for the contents of the file that Image writes.
	spare []byte
}

// file is a file or a directory of the simulated disk.
type file struct {
	dir bool
	// data is the durable content of a file; names are the durable entries of a directory, by name.
	data  []byte
	names map[string]int
	// pending are the indexes, in order, of the ops that may be lost.
	pending []int
}

// NewDisk returns a disk with an empty directory, at the beginning of the record.
func NewDisk(record []Op, faults Faults) *Disk {
	return &Disk{record: record, faults: faults, files: map[int]*file{Root: {dir: true, names: map[string]int{}}}}
}

// At returns the number of ops of the record that the disk has replayed.
func (d *Disk) At() int { return d.at }

// Advance replays the record up to its first at ops. It cannot go back.
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

// make adds the file that a directory entry names, if the disk does not have the file yet.
func (d *Disk) make(n Name) {
	if n.File == 0 || d.files[n.File] != nil {
		return
	}
	d.files[n.File] = &file{dir: n.Dir, names: map[string]int{}}
}

// sync makes the pending ops of f durable that precede op number since in the record.
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

// sizeAfter returns the size that a file has after an op.
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

// resize truncates data or extends it with zeros.
func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size]
	}
	old := len(data)
	data = slices.Grow(data, int(size)-old)[:size]
	clear(data[old:])
	return data
}

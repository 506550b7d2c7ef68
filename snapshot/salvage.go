package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Loss is a part of a snapshot that can not be read.
type Loss struct {
	// DamageError says where it begins and what is wrong there. Its Block is -1 where not known.
	DamageError
	// Length is how many bytes were passed over, Blocks how many blocks they held; Blocks is -1 where that is not known.
	Length int64
	Blocks int
}

// SalvageReport says what Salvage found.
type SalvageReport struct {
	// Collections, Objects and Bytes are what can be read; Bytes is the sum of the payloads.
	Collections int
	Objects     int
	Bytes       int64
	// Losses are in the order of the file; empty if nothing is missing.
	Losses []Loss
	// Whole: each collection of the index has been found, with as many objects as it was written with. The losses, if there are any, hold none.
	Whole bool
}

// OpenSalvage opens the snapshot at path, which may be damaged, for what can be read of it. See Salvage.
func OpenSalvage(ctx context.Context, path string, o OpenOptions) (*File, SalvageReport, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, SalvageReport{}, err
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file; write the stream to one first")
	}
	var f *File
	var report SalvageReport
	if err == nil {
		f, report, err = Salvage(ctx, in, info.Size(), o)
	}
	if err != nil {
		_ = in.Close()
		return nil, report, fmt.Errorf("%s: %w", path, err)
	}
	f.closer = in
	return f, report, nil
}

// Salvage reads the size bytes of r, which may be cut short or altered, without the index at their end, and goes on behind what is damaged. What it
// returns holds the blocks that are whole, and is read as any File is; the index of it is in memory, about 200 bytes a block.
//
// A collection that lost something, or may have, is not Complete any more and has MustRelist set. A collection whose descriptions, both at its
// beginning and at its end, are lost is lost with all its blocks. It fails if the first bytes of the file are damaged, which name the format, or where NewReader fails for other reasons than damage.
//
// Of an encrypted snapshot that was cut short nothing is read at random: each read that goes back decrypts it from its beginning.
func Salvage(ctx context.Context, r io.ReaderAt, size int64, o OpenOptions) (*File, SalvageReport, error) {
	in, plain, encrypted, err := decryptDamaged(ctx, r, size, o.Identities)
	if err != nil {
		return nil, SalvageReport{}, err
	}
	f := newFile(in, plain)
	f.manifest.Encrypted = encrypted
	s := &salvager{file: f, in: &window{r: &gapless{in: in, size: plain}}, byNumber: map[uint64]*salvaged{}}
	if s.unpack, err = newUnpacker(); err != nil {
		return nil, SalvageReport{}, err
	}
	defer s.unpack.close()
	if err := s.begin(o.formats); err != nil {
		return nil, SalvageReport{}, err
	}
	if err := s.run(ctx); err != nil {
		return nil, SalvageReport{}, err
	}
	s.finish()
	return f, s.report, nil
}

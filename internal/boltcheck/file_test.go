package boltcheck

import (
	"bytes"
	"errors"
	"math/bits"
	"testing"
)

type counted struct {
	*bytes.Reader
	read int
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	c.read += n
	return n, err
}

func TestFreeBytes(t *testing.T) {
	data := sample(t)
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	free := 0
	for _, word := range f.free {
		free += bits.OnesCount64(word)
	}
	r := &counted{Reader: bytes.NewReader(data)}
	got, err := FreeBytes(r, f.TxID)
	if want := int64(free) * int64(f.PageSize); err != nil || got != want || free == 0 {
		t.Errorf("%d bytes, %v; want %d", got, err, want)
	}
	if r.read > 8*f.PageSize {
		t.Errorf("read %d bytes of %d", r.read, len(data))
	}
	if _, err := FreeBytes(r, f.TxID+1); !errors.Is(err, ErrOvertaken) {
		t.Errorf("another transaction: %v", err)
	}
	data[f.Freelist*uint64(f.PageSize)+8] ^= 0x10 // the flags in the header of the freelist page
	if _, err := FreeBytes(bytes.NewReader(data), f.TxID); !errors.Is(err, ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
}

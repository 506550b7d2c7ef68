package store_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
)

// damageLeaf calls damage with each leaf page of the file that contains the record of key.
func damageLeaf(t *testing.T, path, key string, damage func(leaf []byte, body int)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const pageSize, leaves = 4 << 10, 2
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := false
	for at := 0; at < len(data); at += pageSize {
		isLeaf := int(binary.NativeEndian.Uint64(data[at:])) == at/pageSize &&
			binary.NativeEndian.Uint16(data[at+8:]) == leaves
		span := pageSize * (1 + int(binary.NativeEndian.Uint32(data[at+12:])))
		if !isLeaf || at+span > len(data) {
			continue
		}
		leaf := data[at : at+span]
		name := bytes.Index(leaf, []byte(key))
		if name < 0 {
			continue
		}
		if body := bytes.Index(leaf[name:], []byte("xxxx")); body >= 0 {
			damage(leaf, name+body)
			if _, err := f.WriteAt(leaf, int64(at)); err != nil {
				t.Fatal(err)
			}
			found = true
		}
	}
	if !found {
		t.Fatalf("no leaf has %s", key)
	}
}

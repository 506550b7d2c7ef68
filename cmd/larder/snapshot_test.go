package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"

	"filippo.io/age"
	"github.com/rogpeppe/go-internal/testscript"
)

// damageSnapshot breaks a snapshot: alter changes a bit of its first block of records, cut takes off its last third, later
// sets the format to one that nobody knows yet.
func damageSnapshot(data []byte, how string) []byte {
	switch how {
	case "alter":
		at := 0
		for data[at+12] != 'B' || at == 0 {
			at += 1 + bytes.Index(data[at+1:], []byte("\xa7LRD"))
		}
		data[at+60] ^= 1
	case "cut":
		data = data[:len(data)*2/3]
	case "later":
		const version, textAt = 8, 8 + 4 + 8
		binary.BigEndian.PutUint32(data[version:], 1000)
		end := textAt + 1 + int(data[textAt])
		binary.BigEndian.PutUint32(data[end:], crc32.Checksum(data[:end], crc32.MakeTable(crc32.Castagnoli)))
	}
	return data
}

// agekey makes a key of age: agekey IDENTITIES RECIPIENTS, which are the files that it writes. The public key is in $RECIPIENT, if there was none yet.
func agekey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: agekey IDENTITIES RECIPIENTS")
	}
	key, err := age.GenerateX25519Identity()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("# a key\n"+key.String()+"\n"), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(key.Recipient().String()+"\n"), 0o600))
	if ts.Getenv("RECIPIENT") == "" {
		ts.Setenv("RECIPIENT", key.Recipient().String())
	}
}

package main

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/rogpeppe/go-internal/testscript"
)

// damageSnapshot corrupts a snapshot file: alter inverts a bit of the first block, cut removes the last third, and
// later sets an unknown format version.
func damageSnapshot(data []byte, how string) []byte {
	switch how {
	case "alter":
		// The altered byte is in the first block, after the file's prologue.
		data[len("\x89LARDER\n")+4+8+1+int(data[20])+4+60] ^= 1
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

// killed is the script command that runs a program and kills it once it has created a file: killed PROGRAM ARG… On a
// busy machine the program may end before the kill.
func killed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: killed PROGRAM ARG…")
	}
	program, err := exec.LookPath(args[0])
	ts.Check(err)
	cmd := exec.Command(program, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+ts.Getenv("KUBECONFIG"))
	before := len(files(ts))
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for len(files(ts)) == before {
		select {
		case err := <-ended:
			ts.Check(err)
			return
		default:
		}
	}
	_ = cmd.Process.Kill() // the process may have ended
	ts.Logf("killed: %v", <-ended)
}

// only is the script command that fails if commands have made other files than FILE… in the script's directory: only
// FILE…
func only(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: only FILE…")
	}
	for _, name := range files(ts) {
		if !slices.Contains(args, name) {
			ts.Fatalf("%s is left", name)
		}
	}
}

func files(ts *testscript.TestScript) (names []string) {
	entries, err := os.ReadDir(ts.MkAbs("."))
	ts.Check(err)
	for _, e := range entries {
		if name := e.Name(); name != "kubeconfig" && name != ".tmp" && !strings.HasSuffix(name, ".sock") {
			names = append(names, name)
		}
	}
	return names
}

// agekey is the script command that generates an age key pair and writes both files: agekey IDENTITIES RECIPIENTS. The
// first public key of a script becomes $RECIPIENT.
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

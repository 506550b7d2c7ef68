package store

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"
)

// executableID identifies the running program's code: two programs whose index
// functions may differ have different ones. It is the build id that Go's
// linker notes in ELF files, and elsewhere a hash of the file. Empty is unknown.
func executableID() string {
	// On Linux, the file that runs even if another has been moved into its place.
	path := "/proc/self/exe"
	if _, err := os.Stat(path); err != nil {
		if path, err = os.Executable(); err != nil {
			return ""
		}
	}
	if id := elfBuildID(path); id != "" {
		return id
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// elfBuildID returns a hash of the note that holds the build id, or "".
func elfBuildID(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	section := f.Section(".note.go.buildid")
	if section == nil {
		return ""
	}
	note, err := section.Data()
	if err != nil || len(note) <= 16 { // a note without a description
		return ""
	}
	sum := sha256.Sum256(note)
	return hex.EncodeToString(sum[:])
}

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// record has the identities of the packages that the last run found right. The next one does not check them again; of those that
// something new imports, it checks the declarations only.
type record struct {
	file  string
	right map[string]bool
}

// openRecord reads the record in a directory. One that is not there is empty.
func openRecord(dir string) (record, error) {
	r := record{file: filepath.Join(dir, "right"), right: map[string]bool{}}
	text, err := os.ReadFile(r.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return record{}, err
	}
	for identity := range strings.FieldsSeq(string(text)) {
		r.right[identity] = true
	}
	return r, nil
}

// save replaces what the record has.
func (r record) save(identities []string) error {
	slices.Sort(identities)
	if err := os.MkdirAll(filepath.Dir(r.file), 0o755); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(r.file), "right-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }() // gone, unless something failed
	_, err = part.WriteString(strings.Join(slices.Compact(identities), "\n"))
	if err := errors.Join(err, part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), r.file)
}

// identity hashes all that the check of a package depends on, and not the directory that it is in.
func identity(of string, on platform, l listed, files []*source, imports map[string]*checked) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %q %q %q\n", of, on, l.ImportPath, l.goVersion(), l.ImportMap)
	for _, f := range files {
		sum, err := f.sum()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "file %q %x\n", f.name, sum)
	}
	for _, path := range l.Imports {
		if dep := imports[path]; dep != nil {
			fmt.Fprintf(h, "import %s\n", dep.identity)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ownIdentity is that of this program: another one may find more.
func ownIdentity() (string, error) {
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	program, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(program)), nil
}

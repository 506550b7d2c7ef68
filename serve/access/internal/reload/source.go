// Package reload keeps the parsed contents of a few files, and reloads them after changes. Start with [New].
//
// No goroutines run in the background: Get checks the files if the last check is older than [Interval]. Get compares
// contents, not times. So it detects edits within the clock's resolution, and replaced symbolic links, with which
// Kubernetes updates the volumes of Secrets and ConfigMaps.
package reload

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Interval is the minimum time between two checks of the files.
const Interval = time.Second

// MaxSize is the maximum size of each file in bytes.
const MaxSize = 4 << 20

// Source holds the parsed contents of its files. Get is safe for concurrent use.
type Source[T any] struct {
	what  string
	paths []string
	parse func(contents [][]byte) (T, error)
	log   logr.Logger
	value atomic.Pointer[T]

	// checking is held while the files are checked. It guards checked, good, bad and reported.
	checking sync.Mutex
	checked  time.Time
	// good is the hash of the files' contents that value was parsed from.
	good [sha256.Size]byte
	// bad is the error of the last check of the files; "" without an error.
	bad      string
	reported string
}

// New reads the files at paths, and parses their contents with parse. It fails if a file cannot be read, is larger than
// MaxSize, or cannot be parsed. Errors of parse must not contain file contents, since they are logged.
func New[T any](what string, log logr.Logger, parse func([][]byte) (T, error), paths ...string) (*Source[T], error) {
	s := &Source[T]{what: what, paths: paths, parse: parse, log: log}
	contents, err := s.read()
	if err != nil {
		return nil, err
	}
	value, err := parse(contents)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.names(), err)
	}
	s.value.Store(&value)
	s.good, s.checked = sum(contents), time.Now()
	return s, nil
}

// Get returns the parsed contents of the files, checked within the last second, or the previous contents after an
// error. It logs an error only at its second check, since a file may be half written.
func (s *Source[T]) Get() T {
	if s.checking.TryLock() { // the old value is used while another goroutine checks the files
		if now := time.Now(); now.Sub(s.checked) >= Interval {
			s.checked = now
			s.look()
		}
		s.checking.Unlock()
	}
	return *s.value.Load()
}

func (s *Source[T]) look() {
	err := s.update()
	if err == nil {
		s.bad, s.reported = "", ""
		return
	}
	if text := err.Error(); text != s.bad {
		s.bad = text
	} else if text != s.reported {
		s.reported = text
		s.log.Error(err, "Keeping what the file had before", "file", s.names(), "contents", s.what)
	}
}

func (s *Source[T]) update() error {
	contents, err := s.read()
	if err != nil {
		return err
	}
	now := sum(contents)
	if now == s.good {
		return nil
	}
	value, err := s.parse(contents)
	if err != nil {
		return err
	}
	s.value.Store(&value)
	s.good = now
	s.log.Info("Read a file that has changed", "file", s.names(), "contents", s.what)
	return nil
}

func (s *Source[T]) read() ([][]byte, error) {
	var contents [][]byte
	for _, path := range s.paths {
		data, err := readFile(path)
		if err != nil {
			return nil, err
		}
		contents = append(contents, data)
	}
	return contents, nil
}

func (s *Source[T]) names() string { return strings.Join(s.paths, ", ") }

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a named pipe would wait for its writer
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, MaxSize>>20)
	}
	return data, nil
}

func sum(contents [][]byte) (s [sha256.Size]byte) {
	h := sha256.New()
	for _, data := range contents {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		h.Write(data)
	}
	h.Sum(s[:0])
	return s
}

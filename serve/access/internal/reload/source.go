// Package reload keeps what is in a few files, and reads them anew when they have changed. Start with [New].
//
// Nothing runs in the background: a call of Get looks at the files if nobody has for [Interval]. It compares contents,
// not times, so an edit within the clock's grain is seen, as are files behind symbolic links that are swapped, as
// Kubernetes does with the volumes of Secrets and ConfigMaps.
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

// Interval is how long the contents of the files are taken for unchanged.
const Interval = time.Second

// MaxSize bounds each file.
const MaxSize = 4 << 20

// Source has what is in its files. Get may be called concurrently.
type Source[T any] struct {
	what  string // names the contents in logs
	paths []string
	parse func(contents [][]byte) (T, error)
	log   logr.Logger
	value atomic.Pointer[T]

	checking sync.Mutex // held while the files are read; guards what follows
	checked  time.Time
	good     [sha256.Size]byte // of the contents that value was parsed from
	bad      string            // what was wrong at the last look; "" if nothing was
	reported string            // what of bad was logged last
}

// New reads the files and fails if one cannot be read, is larger than MaxSize, or cannot be parsed. Errors of parse
// must have no contents in them: they are logged.
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

// Get returns what is in the files: of a second ago at most, unless they could not be read or parsed since. Then it is
// what they had before, which is logged once two looks have found the same fault: a file may be half written.
func (s *Source[T]) Get() T {
	if s.checking.TryLock() { // others go on with what they have
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
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
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

// sum tells contents apart, and where one file ends and the next one begins.
func sum(contents [][]byte) (s [sha256.Size]byte) {
	h := sha256.New()
	for _, data := range contents {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		h.Write(data)
	}
	h.Sum(s[:0])
	return s
}

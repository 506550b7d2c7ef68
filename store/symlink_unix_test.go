//go:build unix

package store_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// marker is contained in the objects of these tests, and in no key.
const marker = "marker-in-plain-text"

// linked is the path of a store in a directory of its own, and symbolic links that lead to the store.
type linked struct {
	target string
	ways   map[string]string // path of the store through each kind of link, by the link's name
	links  map[string]string // target of each link, by its path
}

func newLinked(t *testing.T) *linked {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	l := &linked{target: filepath.Join(dir, "disk", "cluster.db"), ways: map[string]string{}, links: map[string]string{}}
	if err := os.Mkdir("disk", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"absolute": l.target, "relative": "disk/cluster.db", "chain": "relative",
		"dir": "disk"} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
		l.links[filepath.Join(dir, name)] = to
		l.ways[name] = filepath.Join(dir, name)
	}
	l.ways["dir"] = filepath.Join("dir", "cluster.db") // a relative path through the link to the directory
	return l
}

// still checks that the links are unchanged, that no file lies beside them, and that the target is a file.
func (l *linked) still(t *testing.T) {
	t.Helper()
	for link, to := range l.links {
		if got, err := os.Readlink(link); err != nil || got != to {
			t.Errorf("the link %s to %s was replaced: %q, %v", link, to, got, err)
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil || len(entries) != len(l.links)+1 {
		t.Errorf("beside the links: %v, %v", entries, err)
	}
	if info, err := os.Lstat(l.target); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the file: %v, %v", info, err)
	}
}

func write(t *testing.T, path string, o store.Options) {
	t.Helper()
	s := openAt(t, path, o)
	relist(t, openPods(t, s, byNamespaceAndColor), store.ReplaceOptions{}, "9",
		upsert("a/x", "1", storetest.ColorLabel, marker))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func openAt(t *testing.T, path string, o store.Options) *store.Store {
	t.Helper()
	quiet := logr.Discard()
	o.Logger, o.LockTimeout = &quiet, -1
	s, err := store.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func eachLink(t *testing.T, fn func(t *testing.T, l *linked, path string)) {
	for _, way := range []string{"absolute", "relative", "chain", "dir"} {
		t.Run(way, func(t *testing.T) {
			l := newLinked(t)
			fn(t, l, l.ways[way])
		})
	}
}

func podKeys(t *testing.T) *seal.Encryption {
	t.Helper()
	line, err := seal.GenerateKey("test")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := seal.ParseKeys([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return &seal.Encryption{Keys: keys, Resources: []schema.GroupResource{{Resource: "pods"}}}
}

// TestRekeyThroughALink checks that Rekey leaves no plain text in the target and does not replace the link.
func TestRekeyThroughALink(t *testing.T) {
	for _, open := range []bool{false, true} {
		eachLink(t, func(t *testing.T, l *linked, path string) {
			write(t, l.target, store.Options{})
			if !bytes.Contains(readFile(t, l.target), []byte(marker)) {
				t.Fatal("the file has no plain text to begin with")
			}
			o, err := store.Options{Encryption: podKeys(t)}, error(nil)
			if open {
				s := openAt(t, path, o)
				_, err = s.Rekey(t.Context())
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			} else {
				_, err = store.Rekey(t.Context(), path, o)
			}
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(readFile(t, l.target), []byte(marker)) {
				t.Error("the file holds plain text after a Rekey that reported success")
			}
			l.still(t)
		})
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestOneStoreBehindALink checks that a link and its target cannot both be open for writing.
func TestOneStoreBehindALink(t *testing.T) {
	eachLink(t, func(t *testing.T, l *linked, path string) {
		s := openAt(t, path, store.Options{})
		relist(t, openPods(t, s, nil), store.ReplaceOptions{}, "9", upsert("a/x", "1"))
		for range 2 {
			for name, other := range l.ways {
				if again, err := store.Open(other, store.Options{LockTimeout: -1}); !errors.Is(err, store.ErrLocked) {
					t.Errorf("%s is open already, and %s could be opened too: %v", path, name, err)
					if err == nil {
						_ = again.Close()
					}
				}
			}
			if _, err := s.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.still(t)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := store.Compact(t.Context(), path, store.Options{}); err != nil {
			t.Error(err)
		}
		l.still(t)
	})
}

// TestDamageBehindALink checks that Open moves a damaged file aside and replaces it in the target's directory.
func TestDamageBehindALink(t *testing.T) {
	eachLink(t, func(t *testing.T, l *linked, path string) {
		write(t, l.target, store.Options{})
		if err := os.Truncate(l.target, 12<<10); err != nil {
			t.Fatal(err)
		}
		s := openAt(t, path, store.Options{})
		if dir := filepath.Dir(s.Quarantined()); dir != filepath.Dir(l.target) {
			t.Errorf("moved to %q", s.Quarantined())
		}
		l.still(t)
	})
}

// TestRestoreBehindALink checks that an import refuses a path that is a link, and follows a link to a directory.
func TestRestoreBehindALink(t *testing.T) {
	l := newLinked(t)
	for _, way := range []string{"absolute", "relative", "chain", "dir", "dir"} {
		_, there := os.Lstat(l.ways[way])
		i, err := store.NewImport(t.Context(), l.ways[way], store.ImportOptions{})
		if err == nil {
			err = errors.Join(i.Commit(t.Context()), i.Abort())
		}
		if got := errors.Is(err, store.ErrExists); got != (there == nil) || !got && err != nil {
			t.Errorf("%s: %v", way, err)
		}
	}
	l.still(t)
}

// TestLinkToNothing checks that a link that cannot be followed is reported with a reason, and that no file is created.
func TestLinkToNothing(t *testing.T) {
	for name, test := range map[string]struct{ to, says string }{
		"no directory": {"none/cluster.db", "there is no directory"},
		"circle":       {"link", "too many links"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.Symlink(test.to, "link"); err != nil {
				t.Fatal(err)
			}
			o := store.Options{LockTimeout: -1}
			for what, open := range map[string]func() error{
				"open": func() error { _, err := store.Open("link", o); return err },
				"read": func() error {
					_, err := store.Open("link",
						store.Options{ReadOnly: true, LockTimeout: -1})
					return err
				},
				"compact": func() error { _, err := store.Compact(t.Context(), "link", o); return err },
			} {
				if err := open(); err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s: %v; want an error with %q", what, err, test.says)
				}
			}
			if entries, err := os.ReadDir("."); err != nil || len(entries) != 1 {
				t.Errorf("left: %v, %v", entries, err)
			}
		})
	}
}

// TestMarkThatIsALink checks that Open fails if the ".opening" file beside the store is a symbolic link. Otherwise a
// user who may create files beside the store could make the store write to another file.
func TestMarkThatIsALink(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.WriteFile("victim", []byte("mine"), 0o600),
		os.Symlink("victim", "s.db.opening")); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open("s.db", store.Options{LockTimeout: -1})
	if err == nil || !strings.Contains(err.Error(), "s.db.opening") || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("open: %v", err)
	}
	if data := readFile(t, "victim"); string(data) != "mine" {
		t.Errorf("the file at the end of the link is %q now", data)
	}
	if _, err := os.Stat("s.db"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a store was made: %v", err)
	}
}

// TestPathIsResolvedOnce checks that an open store is indifferent to changed links and working directories.
func TestPathIsResolvedOnce(t *testing.T) {
	l := newLinked(t)
	s := openAt(t, "relative", store.Options{})
	relist(t, openPods(t, s, nil), store.ReplaceOptions{}, "9", upsert("a/x", "1"))
	away := filepath.Join(t.TempDir(), "other.db")
	link := filepath.Join(filepath.Dir(filepath.Dir(l.target)), "relative")
	if err := errors.Join(os.Remove(link), os.Symlink(away, link)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if _, err := s.Compact(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(away); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the compaction went to %s: %v", away, err)
	}
}

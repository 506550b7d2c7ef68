package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// TestSaveAndRestore compares restored stores with stores saved open or closed, to a file or stream, encrypted or not.
func TestSaveAndRestore(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, recipients := range map[string][]age.Recipient{"plain": nil, "encrypted": {key.Recipient()}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := filepath.Join(dir, "a.db")
			s := savedStore(t, db)
			o := snapshot.SaveOptions{Recipients: recipients, Secrets: true,
				Header: snapshot.Header{ServerVersion: "v1.36.3", Larder: "test"}}
			hot := filepath.Join(dir, "hot.larder")
			saved, err := snapshot.SaveStore(t.Context(), s, hot, o)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(hot)
			if err != nil || info.Mode().Perm() != 0o600 || info.Size() != saved.Size || saved.Objects != 1303 ||
				len(saved.Collections) != 4 || saved.Bytes == 0 {
				t.Errorf("%v, %+v, %v", info, saved, err)
			}
			wantNames(t, dir, "a.db", "hot.larder")
			ro := snapshot.RestoreOptions{Identities: []age.Identity{key}, Secrets: true}
			restored, got := mustRestore(t, hot, ro)
			wantSame(t, snapshot.StoreSource(s), snapshot.StoreSource(restored))
			m := mustOpenFile(t, hot, snapshot.OpenOptions{Identities: ro.Identities}).Manifest()
			if m.ClusterID != "cluster-1" || m.ServerVersion != "v1.36.3" || m.TakenAt.IsZero() ||
				got.Objects != 1303 || got.Bytes != saved.Bytes {
				t.Errorf("%+v", got)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			cold := filepath.Join(dir, "cold.larder")
			if _, err := saveFile(t, db, cold, store.Options{}, o); err != nil {
				t.Fatal(err)
			}
			wantSame(t, snapshot.StoreSource(restored),
				mustOpenFile(t, cold, snapshot.OpenOptions{Identities: []age.Identity{key}}))

			var stream bytes.Buffer
			if _, err := snapshot.SaveStoreTo(t.Context(), restored, &stream, o); err != nil {
				t.Fatal(err)
			}
			if plain := bytes.Contains(stream.Bytes(), []byte("ns-3/pod-000003")); plain && recipients != nil {
				t.Error("it is not encrypted")
			}
			to := filepath.Join(t.TempDir(), "b.db")
			ro.Import.Store.Logger = &quiet
			if _, err := restoreBytes(t, stream.Bytes(), to, ro); err != nil {
				t.Fatal(err)
			}
			again := mustOpen(t, to)
			wantSound(t, again)
			wantSame(t, snapshot.StoreSource(restored), snapshot.StoreSource(again))
		})
	}
}

// TestSaveWithoutSecrets checks that Secrets are saved and restored only on request, and that LeftOut names them.
func TestSaveWithoutSecrets(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := savedStore(t, filepath.Join(dir, "a.db"))
	path := filepath.Join(dir, "a.larder")
	saved, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := mustOpenFile(t, path, snapshot.OpenOptions{})
	for _, leftOut := range [][]string{saved.LeftOut, f.Manifest().LeftOut} {
		if len(leftOut) != 1 || !strings.HasPrefix(leftOut[0], "secrets.v1: ") {
			t.Errorf("left out: %q", leftOut)
		}
	}
	wantSame(t, snapshot.StoreSource(s), f, savedSecrets)
	restored, _ := mustRestore(t, path, snapshot.RestoreOptions{})
	wantSame(t, snapshot.StoreSource(s), snapshot.StoreSource(restored), savedSecrets)

	if saved, err = snapshot.SaveStore(t.Context(), s, path,
		snapshot.SaveOptions{Recipients: []age.Recipient{key.Recipient()}}); err != nil || len(saved.LeftOut) != 0 {
		t.Errorf("encrypted: %+v, %v", saved, err)
	}
	o := snapshot.RestoreOptions{Identities: []age.Identity{key}}
	restored, got := mustRestore(t, path, o)
	wantSame(t, snapshot.StoreSource(s), snapshot.StoreSource(restored), savedSecrets)
	if len(got.LeftOut) != 1 || !strings.HasPrefix(got.LeftOut[0], "secrets.v1: ") {
		t.Errorf("restored: left out %q", got.LeftOut)
	}
	data, err := os.ReadFile(restored.Path())
	if err != nil || bytes.Contains(data, []byte(secretText)) {
		t.Errorf("a Secret is in the store, %v", err)
	}
	if _, err := snapshot.SaveStore(t.Context(), s, path,
		snapshot.SaveOptions{SelectOptions: snapshot.SelectOptions{
			Redaction: snapshot.Redaction{Secrets: true}}}); err != nil {
		t.Fatal(err)
	}
	f = mustOpenFile(t, path, snapshot.OpenOptions{})
	for _, r := range recordsOf(t, f, savedSecrets) {
		if bytes.Contains(r.Payload, []byte(secretText)) {
			t.Errorf("%s has its value", r.Key)
		}
	}
}

// TestRestoreOfAPartIsListed checks that filtered and redacted collections cannot be resumed, and that the next list
// rewrites redacted objects.
func TestRestoreOfAPartIsListed(t *testing.T) {
	dir := t.TempDir()
	s := savedStore(t, filepath.Join(dir, "a.db"))
	path := filepath.Join(dir, "a.larder")
	selection := snapshot.SelectOptions{
		Filter:    snapshot.Filter{Resources: []string{"pods", "widgets.example.com"}, Namespaces: []string{"ns-1", "ns"}},
		Redaction: snapshot.Redaction{Annotations: []string{"note"}},
	}
	check := func(got *store.Store, restored snapshot.Restored) {
		t.Helper()
		if len(restored.Collections) != 2 {
			t.Fatalf("%+v", restored.Collections)
		}
		infos, err := got.Collections(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			if info.MustRelist == "" || info.ResourceVersion == "" ||
				!strings.HasPrefix(info.Attributes.Transform, redactedTransform) {
				t.Errorf("%+v", info)
			}
		}
		if n := len(recordsOf(t, snapshot.StoreSource(got), savedPods)); n != 143 {
			t.Errorf("%d pods", n)
		}
	}
	if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{SelectOptions: selection}); err != nil {
		t.Fatal(err)
	}
	check(mustRestore(t, path, snapshot.RestoreOptions{}))
	if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	check(mustRestore(t, mustPart(t, path, selection), snapshot.RestoreOptions{}))
}

func TestSaveKeepsTheOldFile(t *testing.T) {
	dir, at := t.TempDir(), t.TempDir()
	s := savedStore(t, filepath.Join(at, "a.db"))
	path := filepath.Join(dir, "a.larder")
	for _, name := range []string{"a.larder", "a.larder.new-left", "a.larder.news"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(magic+"old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := snapshot.SaveStore(ctx, s, path, snapshot.SaveOptions{Progress: func(p snapshot.Progress) {
		if p.Objects > 500 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), path) {
		t.Errorf("cancelled: %v", err)
	}
	if data, err := os.ReadFile(path); string(data) != magic+"old" {
		t.Errorf("%q, %v", data, err)
	}
	wantNames(t, dir, "a.larder", "a.larder.news")
	wantNames(t, at, "a.db")
	link := filepath.Join(dir, "link")
	if err := os.Symlink("a.larder", link); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.SaveStore(t.Context(), s, link, snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); to != "a.larder" {
		t.Errorf("the link leads to %s, %v", to, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	wantSame(t, snapshot.StoreSource(s), mustOpenFile(t, path, snapshot.OpenOptions{}), savedSecrets)
	if _, err := snapshot.SaveStore(t.Context(), s, dir, snapshot.SaveOptions{}); err == nil {
		t.Error("a directory was replaced")
	}
	if _, err := snapshot.SaveStore(t.Context(), s, "", snapshot.SaveOptions{}); err == nil {
		t.Error("there is a file without a name")
	}
	if _, err := saveFile(t, filepath.Join(at, "a.db"), path, store.Options{LockTimeout: -1},
		snapshot.SaveOptions{}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a store that is open: %v", err)
	}
	if _, err := snapshot.SaveStoreTo(t.Context(), s, brokenWriter{}, snapshot.SaveOptions{}); !errors.Is(err,
		errStopped) {
		t.Errorf("a broken stream: %v", err)
	}
	wantNames(t, dir, "a.larder", "a.larder.news", "link")
	wantNames(t, at, "a.db")
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errStopped }

// TestProgress checks that progress grows to the total, which is known from the start.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	s := savedStore(t, filepath.Join(dir, "a.db"))
	path := filepath.Join(dir, "a.larder")
	follow := func(what string) (notify func(snapshot.Progress), check func(objects int)) {
		var last snapshot.Progress
		calls := 0
		return func(p snapshot.Progress) {
				if p.Objects < last.Objects || p.Bytes < last.Bytes || p.TotalObjects < p.Objects {
					t.Errorf("%s: %+v after %+v", what, p, last)
				}
				last = p
				calls++
			}, func(objects int) {
				t.Helper()
				if last.Objects != objects || last.TotalObjects != objects || last.Bytes == 0 || calls < 6 {
					t.Errorf("%s: %+v after %d calls", what, last, calls)
				}
			}
	}
	notify, check := follow("save")
	if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{Progress: notify}); err != nil {
		t.Fatal(err)
	}
	check(1300)
	notify, check = follow("restore")
	mustRestore(t, path, snapshot.RestoreOptions{Progress: notify})
	check(1300)
}

// TestSaveOfADamagedStore checks that a save of a damaged store fails with the name of an object, and leaves no file.
func TestSaveOfADamagedStore(t *testing.T) {
	dir := t.TempDir()
	db, path := filepath.Join(dir, "a.db"), filepath.Join(dir, "a.larder")
	s := mustOpen(t, db)
	listPods(t, s, 1000, "5000")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	storetest.Flip(t, db, "ns-3/pod-000003", "ns-4/pod-000004")
	if _, err := saveFile(t, db, path, store.Options{}, snapshot.SaveOptions{}); !errors.Is(err, entry.ErrDamaged) ||
		!strings.Contains(err.Error(), "pod-00000") {
		t.Errorf("%v", err)
	}
	wantNames(t, dir, "a.db")
}

func TestRestoreOfADamagedSnapshot(t *testing.T) {
	dir := t.TempDir()
	s := savedStore(t, filepath.Join(dir, "a.db"))
	path := filepath.Join(dir, "a.larder")
	if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	to := filepath.Join(at, "b.db")
	bad := filepath.Join(dir, "bad.larder")
	for name, change := range map[string]func([]byte) []byte{
		"cut short": func(b []byte) []byte { return b[:len(b)*2/3] },
		"a bit":     func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"the front": func(b []byte) []byte { b[60] ^= 1; return b },
		"the end":   func(b []byte) []byte { b[len(b)-9] ^= 1; return b },
		"none":      func([]byte) []byte { return []byte("no snapshot at all") },
		"empty":     func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(bad, change(bytes.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			want := snapshot.ErrDamaged
			if name == "none" || name == "empty" {
				want = snapshot.ErrNotSnapshot
			}
			if _, err := snapshot.Restore(t.Context(), bad, to, snapshot.RestoreOptions{}); !errors.Is(err, want) {
				t.Errorf("Restore: %v", err)
			}
			wantNames(t, at)
		})
	}
}

func TestRestoreOverAFile(t *testing.T) {
	dir := t.TempDir()
	s := savedStore(t, filepath.Join(dir, "a.db"))
	path := filepath.Join(dir, "a.larder")
	if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Restore(t.Context(), path, s.Path(), snapshot.RestoreOptions{}); !errors.Is(err,
		store.ErrExists) {
		t.Errorf("%v", err)
	}
	wantSound(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	at := t.TempDir()
	_, err := snapshot.Restore(ctx, path, filepath.Join(at, "b.db"),
		snapshot.RestoreOptions{Progress: func(p snapshot.Progress) {
			if p.Objects > 500 {
				cancel()
			}
		}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	wantNames(t, at)
}

// TestClusterOfASnapshot checks that a snapshot has a cluster id only if its collections do not contradict each other.
func TestClusterOfASnapshot(t *testing.T) {
	for _, tc := range []struct {
		clusters []string
		want     string
	}{
		{[]string{"one", "one"}, "one"}, {[]string{"", "one"}, "one"}, {[]string{"one", ""}, "one"}, {[]string{"", ""}, ""},
		{[]string{"one", "two"}, ""},
	} {
		var src memorySource
		for i, cluster := range tc.clusters {
			c := snapshot.Collection{Identity: identityOf([]string{"nodes", "pods"}[i])}
			c.Attributes.ClusterID = cluster
			src = append(src, contentOf{collection: c})
		}
		path := filepath.Join(t.TempDir(), "a.larder")
		if _, err := snapshot.Save(t.Context(), src, path, snapshot.SaveOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := mustOpenFile(t, path, snapshot.OpenOptions{}).Manifest(); got.ClusterID != tc.want ||
			len(got.Collections) != 2 {
			t.Errorf("of %q: %q, want %q", tc.clusters, got.ClusterID, tc.want)
		}
	}
}

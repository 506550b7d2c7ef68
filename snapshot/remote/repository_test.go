package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/remote"
)

// takenAt saves a copy of a snapshot whose Header says that it was taken at another time.
func takenAt(t *testing.T, from string, at time.Time, o snapshot.SaveOptions) string {
	t.Helper()
	f, err := snapshot.Open(from, snapshot.OpenOptions{})
	must(t, err)
	defer func() { must(t, f.Close()) }()
	path := filepath.Join(t.TempDir(), "copy.larder")
	o.Header.TakenAt = at
	_, err = snapshot.Save(t.Context(), f, path, o)
	must(t, err)
	return path
}

func repository(t *testing.T, at string, o remote.Options) *remote.Repository {
	t.Helper()
	r, err := remote.NewRepository(at, o)
	must(t, err)
	return r
}

func push(t *testing.T, r *remote.Repository, path string) (string, error) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	return r.Push(t.Context(), f)
}

func names(items []remote.Item) (all []string) {
	for _, it := range items {
		all = append(all, it.Name)
	}
	return all
}

// TestRepository checks that readers get the last push, regardless of its TakenAt, from a directory and from a web
// server on it. Other files in the directory are ignored.
func TestRepository(t *testing.T) {
	path, _ := saved(t, 10)
	dir := t.TempDir() + "/"
	must(t, os.WriteFile(dir+"notes.txt", []byte("keep me"), 0o600))
	r := repository(t, dir, remote.Options{})
	if items, err := r.List(t.Context()); err != nil || len(items) > 0 {
		t.Fatalf("%v, %v", items, err)
	}
	if _, err := remote.Open(t.Context(), dir, remote.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty repository: %v", err)
	}
	day := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	var pushed []string
	for _, at := range []time.Time{day, day.Add(2 * time.Minute), day.Add(-time.Hour)} {
		name, err := push(t, r, takenAt(t, path, at, snapshot.SaveOptions{}))
		must(t, err)
		if !strings.HasPrefix(name, at.Format("20060102T150405Z-")) {
			t.Errorf("what was taken at %v is called %s", at, name)
		}
		pushed = append(pushed, name)
	}
	items, err := r.List(t.Context())
	must(t, err)
	if want := []string{pushed[1], pushed[0], pushed[2]}; !slices.Equal(names(items), want) {
		t.Fatalf("got %v, want %v", names(items), want)
	}
	must(t, r.Describe(t.Context(), items))
	for i, it := range items {
		if it.Latest != (i == 2) {
			t.Errorf("%s is the latest: %t", it.Name, it.Latest)
		}
		if it.Err != nil || it.Manifest.Collections[0].Objects != 10 || it.Size == 0 || !it.Manifest.TakenAt.Equal(it.Taken) {
			t.Errorf("%+v", it)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for _, at := range []string{dir, strings.TrimSuffix(dir, "/"), "file://" + dir, server.URL + "/",
		server.URL + "/" + pushed[2], dir + "latest", server.URL + "/latest"} {
		f, err := remote.Open(t.Context(), at, remote.Options{})
		must(t, err)
		if got := f.Manifest().TakenAt; !got.Equal(day.Add(-time.Hour)) {
			t.Errorf("%s is of %v", at, got)
		}
		must(t, f.Close())
	}
	if _, err := push(t, repository(t, server.URL+"/", remote.Options{}), path); !errors.Is(err, remote.ErrReadOnly) {
		t.Errorf("pushed to a web server: %v", err)
	}
	if _, err := remote.NewRepository(dir+pushed[0], remote.Options{}); err == nil {
		t.Error("a snapshot is no repository")
	}
	at := server.URL + "/nothing"
	if _, err := remote.Open(t.Context(), at, remote.Options{}); err == nil ||
		!strings.Contains(err.Error(), "ends in a slash") {
		t.Errorf("%s without a slash: %v", at, err)
	}
	must(t, os.WriteFile(dir+"latest", []byte("../../etc/passwd\n"), 0o600))
	if _, err := remote.Open(t.Context(), dir, remote.Options{}); err == nil ||
		!strings.Contains(err.Error(), "does not name a snapshot") {
		t.Errorf("got %v", err)
	}
	if again, err := r.List(t.Context()); err != nil || len(again) != 3 {
		t.Errorf("%v, %v", again, err)
	}
	if _, _, err := r.Prune(t.Context(), remote.Keep{Last: 1}, false); err == nil {
		t.Error("pruned without knowing which is the latest")
	}
}

// TestPrune checks that Prune removes exactly the snapshots that no rule keeps, and never the latest.
func TestPrune(t *testing.T) {
	path, _ := saved(t, 1)
	day := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC) // a Saturday
	var at []time.Time
	for _, ago := range []time.Duration{0, 2 * time.Minute, time.Hour, 25 * time.Hour, 26 * time.Hour, 6 * 24 * time.Hour} {
		at = append(at, day.Add(-ago))
	}
	fill := func(t *testing.T) (r *remote.Repository, dir string) {
		t.Helper()
		dir = t.TempDir() + "/"
		r = repository(t, dir, remote.Options{})
		for _, taken := range slices.Backward(at) {
			_, err := push(t, r, takenAt(t, path, taken, snapshot.SaveOptions{}))
			must(t, err)
		}
		must(t, os.WriteFile(dir+"mine.larder", []byte("a name that no push gives"), 0o600))
		return r, dir
	}
	for _, tt := range []struct {
		keep remote.Keep
		want []int
	}{
		{remote.Keep{}, []int{0}},
		{remote.Keep{Last: 3}, []int{0, 1, 2}},
		{remote.Keep{Last: 100}, []int{0, 1, 2, 3, 4, 5}},
		{remote.Keep{Hourly: 2}, []int{0, 1}}, // the newest of 12:00 and of 11:58
		{remote.Keep{Daily: 2}, []int{0, 3}},
		{remote.Keep{Daily: 7}, []int{0, 3, 5}},
		{remote.Keep{Weekly: 2}, []int{0, 5}}, // Sunday the 22nd belongs to the previous week
		{remote.Keep{Last: 2, Daily: 2}, []int{0, 1, 3}},
	} {
		t.Run(fmt.Sprintf("%+v", tt.keep), func(t *testing.T) {
			r, dir := fill(t)
			kept, removed, err := r.Prune(t.Context(), tt.keep, true)
			must(t, err)
			items, err := r.List(t.Context())
			must(t, err)
			if len(items) != len(at) || len(kept)+len(removed) != len(at) || len(kept) != len(tt.want) {
				t.Errorf("a dry run: %v of %v", names(kept), names(items))
			}
			_, _, err = r.Prune(t.Context(), tt.keep, false)
			must(t, err)
			items, err = r.List(t.Context())
			must(t, err)
			var want []time.Time
			for _, i := range tt.want {
				want = append(want, at[i])
			}
			var got []time.Time
			for _, it := range items {
				got = append(got, it.Taken)
			}
			if !slices.Equal(got, want) {
				t.Errorf("kept %v, want %v", got, want)
			}
			_, err = os.Stat(dir + "mine.larder")
			must(t, err)
		})
	}
	r, dir := fill(t)
	if _, removed, err := r.Prune(t.Context(), remote.Keep{Last: -1}, false); err == nil || len(removed) > 0 {
		t.Errorf("less than nothing was kept: %v, %v", removed, err)
	}
	items, err := r.List(t.Context())
	must(t, err)
	must(t, os.WriteFile(dir+"latest", []byte(items[3].Name+"\n"), 0o600))
	kept, _, err := r.Prune(t.Context(), remote.Keep{Last: 1}, false)
	must(t, err)
	if !slices.Equal(names(kept), []string{items[0].Name, items[3].Name}) {
		t.Errorf("kept %v", names(kept))
	}
}

// TestPull checks that a damaged snapshot, or one without the required signature, leaves and replaces no file.
func TestPull(t *testing.T) {
	path, size := saved(t, 500)
	public, private, err := minisign.GenerateKey(nil)
	must(t, err)
	signed := takenAt(t, path, time.Now(), snapshot.SaveOptions{SigningKey: &private})
	dir := t.TempDir() + "/"
	name, err := push(t, repository(t, dir, remote.Options{}), signed)
	must(t, err)
	to := filepath.Join(t.TempDir(), "pulled.larder")
	by := remote.Options{SignedBy: []minisign.PublicKey{public}}
	from, verified, err := remote.Pull(t.Context(), dir, to, by)
	if err != nil || !verified || from != dir+name {
		t.Fatalf("%s, %v, %v", from, verified, err)
	}
	want, err := os.ReadFile(signed)
	must(t, err)
	got, err := os.ReadFile(to)
	must(t, err)
	if string(got) != string(want) {
		t.Error("the copy differs")
	}
	other := filepath.Join(t.TempDir(), "store.db")
	must(t, os.WriteFile(other, []byte("not a snapshot"), 0o600))
	if _, _, err := remote.Pull(t.Context(), dir, other, remote.Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another file was replaced: %v", err)
	}
	if _, _, err := remote.Pull(t.Context(), path, to, by); !errors.Is(err, snapshot.ErrUnsigned) {
		t.Errorf("got %v", err)
	}
	changed := filepath.Join(t.TempDir(), "changed.larder")
	data, err := os.ReadFile(path)
	must(t, err)
	data[size/2] ^= 1
	must(t, os.WriteFile(changed, data, 0o600))
	if _, _, err := remote.Pull(t.Context(), changed, to, remote.Options{}); err == nil {
		t.Error("a damaged snapshot was pulled")
	}
	after, err := os.ReadDir(filepath.Dir(to))
	must(t, err)
	if got, err := os.ReadFile(to); err != nil || string(got) != string(want) || len(after) != 1 {
		t.Errorf("what was there is not any more: %v, %v", after, err)
	}
}

// TestEncrypted checks that Push and Pull work without the decryption key, unlike Describe.
func TestEncrypted(t *testing.T) {
	path, _ := saved(t, 10)
	id, err := age.GenerateX25519Identity()
	must(t, err)
	taken := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sealed := takenAt(t, path, taken, snapshot.SaveOptions{Recipients: []age.Recipient{id.Recipient()}})
	dir := t.TempDir() + "/"
	r := repository(t, dir, remote.Options{})
	name, err := push(t, r, sealed)
	must(t, err)
	info, err := os.Stat(sealed)
	must(t, err)
	if !strings.HasPrefix(name, info.ModTime().UTC().Format("20060102T150405Z")) {
		t.Errorf("%s, and the file is of %v", name, info.ModTime())
	}
	items, err := r.List(t.Context())
	must(t, err)
	must(t, r.Describe(t.Context(), items))
	if len(items) != 1 || !errors.Is(items[0].Err, snapshot.ErrEncrypted) {
		t.Errorf("%+v", items)
	}
	to := filepath.Join(t.TempDir(), "pulled.larder")
	if _, verified, err := remote.Pull(t.Context(), dir, to, remote.Options{}); err != nil || verified {
		t.Errorf("verified %v, %v", verified, err)
	}
	with := remote.Options{Identities: []age.Identity{id}}
	if _, verified, err := remote.Pull(t.Context(), dir, to, with); err != nil || !verified {
		t.Errorf("verified %v, %v", verified, err)
	}
	if name, err := push(t, repository(t, dir, with), sealed); err != nil ||
		!strings.HasPrefix(name, taken.Format("20060102T150405Z")) {
		t.Errorf("%s, %v", name, err)
	}
}

// TestNewestWhileRead checks that reading the latest snapshot continues after a newer one was pushed.
func TestNewestWhileRead(t *testing.T) {
	path, _ := saved(t, 2000)
	dir := t.TempDir() + "/"
	r := repository(t, dir, remote.Options{})
	_, err := push(t, r, path)
	must(t, err)
	server := httptest.NewServer(cutting(http.FileServer(http.Dir(dir))))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	f, err := remote.Open(t.Context(), server.URL+"/", remote.Options{})
	must(t, err)
	defer func() { must(t, f.Close()) }()
	_, err = push(t, r, takenAt(t, path, time.Now().Add(time.Minute), snapshot.SaveOptions{}))
	must(t, err)
	if n, err := read(context.Background(), f); n != 2000 || err != nil {
		t.Errorf("%d objects, %v", n, err)
	}
}

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	path, _ := saved(t, 1)
	made := repository(t, dir+"/new/below/", remote.Options{})
	must(t, made.Prepare())
	if _, err := push(t, made, path); err != nil {
		t.Error(err)
	}
	must(t, made.Prepare())
	for _, name := range []string{"/new", "/new/below"} {
		if in, err := os.Stat(dir + name); err != nil || in.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, in, err)
		}
	}
	must(t, os.WriteFile(dir+"/file", nil, 0o600))
	if err := repository(t, dir+"/file/", remote.Options{}).Prepare(); err == nil {
		t.Error("a file is taken for a directory")
	}
	if err := repository(t, "https://127.0.0.1/x/", remote.Options{}).Prepare(); !errors.Is(err, remote.ErrReadOnly) {
		t.Errorf("a web server: %v", err)
	}
}

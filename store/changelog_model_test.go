package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// changelogModel is the state of a rapid model test: a collection with durable handlers, and the API server that fills
// it. Actions of the test damage, repair or set back the collection's file.
type changelogModel struct {
	*rapid.T
	dir     string
	opened  int
	o       store.Options
	s       *store.Store
	c       *store.Collection
	cursors map[string]*store.Cursor
	views   map[string]*handlerModel
	since   *sinceModel

	rv   int
	uids int
	now  map[string]string // UID and resourceVersion (uid@rv) of each object on the server, by key
	sent []sentOp
}

type sentOp struct {
	rv int
	op entry.Op
}

// handlerModel is the state that a durable handler has built from its changes. It survives simulated crashes.
type handlerModel struct {
	objects map[string]string
	seen    map[string]bool
}

var changelogKeys = []string{"a/1", "a/2", "b/1", "b/2", "b/3"}

func (m *changelogModel) path() string {
	return filepath.Join(m.dir, fmt.Sprint(m.opened), "larder.db")
}

func (m *changelogModel) must(what string, err error) {
	m.Helper()
	if err != nil {
		m.Fatalf("%s: %v", what, err)
	}
}

// open opens the store and applies the events after its resourceVersion, or lists the collection if it must.
func (m *changelogModel) open() {
	s, err := store.Open(m.path(), m.o)
	m.must("open", err)
	store.NoSync(s)
	m.s = s
	id := entry.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource}
	residency := rapid.SampledFrom([]store.Residency{store.All, store.None}).Draw(m.T, "residency")
	m.c, err = s.Collection(context.Background(), id,
		store.CollectionOptions{Codec: storetest.PodCodec(), Indexers: byNamespaceAndColor,
			IndexVersions: map[string]string{"color": "1", "namespace": "1"}, Residency: residency})
	m.must("collection", err)
	m.must("resident", m.c.WaitResident(context.Background()))
	m.cursors = map[string]*store.Cursor{}
	for name := range m.views {
		m.cursors[name], err = m.c.OpenCursor(context.Background(), name)
		m.must("open cursor", err)
	}
	m.must("keep changes", m.c.RetainChanges(context.Background(), time.Hour))
	info, err := m.c.Info(context.Background())
	m.must("info", err)
	if info.MustRelist != "" || !info.Complete {
		m.relist()
		return
	}
	from, err := strconv.Atoi(info.ResourceVersion)
	m.must("resume", err)
	for _, e := range m.sent {
		if e.rv > from {
			m.apply(e)
		}
	}
}

func (m *changelogModel) apply(e sentOp) {
	_, err := m.c.Apply(context.Background(), entry.Batch{Ops: []entry.Op{e.op}, ResourceVersion: fmt.Sprint(e.rv)})
	m.must("apply", err)
}

func (m *changelogModel) relist() {
	r, err := m.c.BeginReplace(context.Background(), store.ReplaceOptions{})
	m.must("list", err)
	var items []entry.Op
	for _, key := range slices.Sorted(maps.Keys(m.now)) {
		items = append(items, entry.Op{Object: m.pod(key)})
	}
	_, err = r.Page(context.Background(), podsOf(items...))
	m.must("page", err)
	for more := true; more; {
		res, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: fmt.Sprint(m.rv)})
		m.must("end of the list", err)
		more = res.More
	}
}

func (m *changelogModel) pod(key string) *corev1.Pod {
	uid, rv, _ := bytes.Cut([]byte(m.now[key]), []byte("@"))
	return storetest.Pod(key, string(uid), string(rv), storetest.ColorLabel, string(uid))
}

func (m *changelogModel) change() {
	key := rapid.SampledFrom(changelogKeys).Draw(m.T, "key")
	kind := rapid.SampledFrom([]string{"write", "write", "delete", "recreate"}).Draw(m.T, "kind")
	if old, there := m.now[key]; there && kind != "write" {
		uid, _, _ := bytes.Cut([]byte(old), []byte("@"))
		m.rv++
		delete(m.now, key)
		m.send(entry.Op{Type: entry.Delete, Object: storetest.Pod(key, string(uid), fmt.Sprint(m.rv), storetest.ColorLabel,
			string(uid))})
	}
	if kind == "delete" {
		return
	}
	uid, _, there := bytes.Cut([]byte(m.now[key]), []byte("@"))
	if !there {
		m.uids++
		uid = []byte(fmt.Sprint("uid-", m.uids))
	}
	m.rv++
	m.now[key] = fmt.Sprintf("%s@%d", uid, m.rv)
	m.send(entry.Op{Object: m.pod(key)})
}

func (m *changelogModel) send(op entry.Op) {
	e := sentOp{m.rv, op}
	m.sent = append(m.sent, e)
	m.apply(e)
}

// damage damages one entry of the file, checks that Scrub finds the damage, and repairs it.
func (m *changelogModel) damage() {
	kind := rapid.SampledFrom([]string{"flip", "punch", "index", "seq", "seq entry", "tombstone", "lost tombstone",
		"cursor"}).Draw(m.T, "damage")
	n := rapid.IntRange(0, 4).Draw(m.T, "which")
	spoilt := false
	m.must("damageEntry", tamperWith(m.c, func(b *bolt.Bucket) (err error) {
		spoilt, err = damageEntry(b, kind, n)
		return err
	}))
	if !spoilt {
		return
	}
	// Flush also writes the positions of the handlers, and may repair the damaged position.
	if m.o.CommitInterval < 0 && kind == "cursor" {
		m.must("flush", m.s.Flush(context.Background()))
	}
	err := m.s.Scrub(context.Background())
	if err == nil && kind == "cursor" {
		return
	}
	if !errors.Is(err, entry.ErrDamaged) {
		m.Fatalf("%s: %v", kind, err)
	}
	m.repair()
}

// damageEntry damages the n-th entry of a kind, such as a tombstone. It returns false without such an entry.
func damageEntry(b *bolt.Bucket, kind string, n int) (bool, error) {
	bucket, flips := b.Bucket(disk.Objects), false
	switch kind {
	case "flip":
		flips = true
	case "index":
		bucket = colors(b)
	case "seq", "seq entry":
		bucket = b.Bucket(disk.Seq)
	case "tombstone", "lost tombstone":
		bucket, flips = b.Bucket(disk.Tombstones), kind == "tombstone"
	case "cursor":
		bucket, flips = b.Bucket(disk.Cursors), true
	}
	cur := bucket.Cursor()
	k, v := cur.First()
	for next, data := k, v; n > 0 && next != nil; n-- {
		k, v = next, data
		next, data = cur.Next()
	}
	if k == nil {
		return false, nil
	}
	k, v = bytes.Clone(k), bytes.Clone(v)
	switch {
	case flips:
		v[len(v)-1] ^= 1
		return true, bucket.Put(k, v)
	case kind == "seq entry":
		return true, bucket.Put([]byte{0, 0, 0, 0, 0, 0, 0, 0}, v)
	}
	return true, bucket.Delete(k)
}

// repair lists the collection if a record is damaged, and otherwise opens the damaged file again.
func (m *changelogModel) repair() {
	if m.s.Err() != nil {
		_ = m.s.Close() // the dirty changes are lost
		m.open()
		return
	}
	m.relist()
	m.must("flush", m.s.Flush(context.Background()))
}

// crash loses all uncommitted changes: it reopens the file in the state of the last commit.
func (m *changelogModel) crash() {
	data, err := os.ReadFile(m.path())
	m.must("read", err)
	m.must("close", m.s.Close())
	m.opened++
	m.must("mkdir", os.MkdirAll(filepath.Dir(m.path()), 0o700))
	m.must("write", os.WriteFile(m.path(), data, 0o600))
	m.open()
}

func (m *changelogModel) read(name string, pages int) {
	ctx, f, v := context.Background(), m.cursors[name], m.views[name]
	for range pages {
		position, resets, err := f.Position()
		m.must("position", err)
		if position.Replaying && !position.Notified {
			v.seen, position.Notified = map[string]bool{}, true
		}
		p, next, err := f.Read(ctx, position)
		m.must("read", err)
		v.take(m.T, p)
		if position.Replaying && !next.Replaying {
			maps.DeleteFunc(v.objects, func(key, _ string) bool { return v.seen != nil && !v.seen[key] })
			v.seen = nil
		}
		position = next
		if err := f.Acknowledge(position, resets); !errors.Is(err, consumer.ErrReset) {
			m.must("acknowledge", err)
		}
	}
	// With a positive CommitInterval, other actions commit the position.
	if m.o.CommitInterval < 0 {
		m.must("flush", m.s.Flush(ctx))
	}
}

func (v *handlerModel) take(t *rapid.T, p consumer.Page) {
	for _, c := range p.Changes {
		uid, _, _ := bytes.Cut([]byte(v.objects[c.Key]), []byte("@"))
		switch {
		case c.Type == entry.Upsert:
			v.objects[c.Key] = c.UID + "@" + c.ResourceVersion
		case string(uid) == c.UID:
			delete(v.objects, c.Key)
		}
		if v.seen != nil {
			v.seen[c.Key] = true
		}
		if c.Object == nil {
			t.Errorf("%+v has no object", c)
		}
	}
}

// TestChangelogModel checks that each durable handler reaches the server's state after any damage and any crash.
func TestChangelogModel(t *testing.T) {
	quiet := logr.Discard()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		m := &changelogModel{T: rt, dir: dir, now: map[string]string{}, views: map[string]*handlerModel{}, rv: 100}
		m.o = byHand()
		m.o.Logger = &quiet
		m.o = store.Every(m.o, rapid.SampledFrom([]time.Duration{-1, 1 << 40}).Draw(rt, "commit"))
		for _, name := range []string{"eager", "lazy"} {
			m.views[name] = &handlerModel{objects: map[string]string{}}
		}
		m.since = &sinceModel{}
		m.open()
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(*rapid.T) { m.change() },
			"flush":  func(*rapid.T) { m.must("flush", m.s.Flush(context.Background())) },
			"damage": func(*rapid.T) { m.since.damaged = true; m.damage() },
			"crash":  func(*rapid.T) { m.crash() },
			"read":   func(*rapid.T) { m.read("eager", 2) },
			"since":  func(*rapid.T) { m.since.read(m) },
			"read one page": func(rt *rapid.T) {
				m.read(rapid.SampledFrom([]string{"eager", "lazy", "lazy"}).Draw(rt, "name"), 1)
			},
		})
		m.must("flush", m.s.Flush(context.Background()))
		m.since.read(m)
		if !maps.Equal(m.since.objects, m.now) {
			rt.Errorf("who asked for changes since a number holds %v, and the server %v", m.since.objects, m.now)
		}
		for name, v := range m.views {
			m.read(name, 4)
			if !maps.Equal(v.objects, m.now) {
				rt.Errorf("%s holds %v, and the server %v", name, v.objects, m.now)
			}
		}
		storetest.Check(rt, m.s)
		m.must("close", m.s.Close())
	})
}

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/internal/hook"
)

// detachedPods returns a store in memory with pods at resourceVersion 2, and the one that has its file, with pods at 1.
func detachedPods(t *testing.T, o Options) (s, holder *Store, c *Collection) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	holder = mustOpen(t, path, Options{CommitInterval: -1})
	b, err := openCompactPods(holder)
	if err == nil {
		err = listPods(b, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.MemoryWhileLocked, o.LockTimeout = true, -1
	s = mustOpen(t, path, o)
	if c, err = openCompactPods(s); err == nil {
		err = listPods(c, 2)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, holder, c
}

// listPods lists the pods of compactStep, at resourceVersion n.
func listPods(c *Collection, n uint64) error {
	ctx := context.Background()
	r, err := c.BeginReplace(ctx, ReplaceOptions{})
	if err == nil {
		_, err = r.Commit(ctx, Batch{ResourceVersion: "1"})
	}
	if err == nil {
		err = compactStep(c, n)
	}
	if err == nil {
		err = c.store.Flush(ctx)
	}
	return err
}

// wantPodsAt checks that c has the pods at resourceVersion n and that its store is good.
func wantPodsAt(t *testing.T, c *Collection, n uint64) {
	t.Helper()
	all, info := mustListAll(t, c)
	if len(all) != compactPods || info.ResourceVersion != fmt.Sprint(n) || all[0].ResourceVersion != fmt.Sprint(n) {
		t.Fatalf("%d pods at %s, want %d at %d", len(all), info.ResourceVersion, compactPods, n)
	}
	if r, err := c.store.Check(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Fatalf("check: %q, %v", r.Problems, err)
	}
}

func mustAttach(t *testing.T, s *Store, wait time.Duration) {
	t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	if err := s.Detached(); err != nil {
		t.Fatalf("still in memory: %v", err)
	}
}

// A file that is damaged when it becomes free is moved aside, as Open does it.
func TestAttachToADamagedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, holder, c := detachedPods(t, Options{})
		mustClose(t, holder)
		if err := os.Truncate(s.Path(), 64<<10); err != nil {
			t.Fatal(err)
		}
		mustAttach(t, s, 3*time.Second)
		if s.Quarantined() == "" {
			t.Error("nobody is told that the file was damaged")
		}
		wantPodsAt(t, c, 2)
		wantNames(t, filepath.Dir(s.Path()), "store", filepath.Base(s.Quarantined()))
	})
}

// A record that is damaged does not keep the file from being used: it is written anew.
func TestAttachToAFileWithADamagedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, holder, c := detachedPods(t, Options{})
		b := holder.liveCollections()[0]
		err := Tamper(b, func(b *bolt.Bucket) error {
			k, data := b.Bucket(bucketObjects).Cursor().First()
			bad := append([]byte(nil), data...)
			bad[len(bad)-5] ^= 1
			return b.Bucket(bucketObjects).Put(k, bad)
		})
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, holder)
		mustAttach(t, s, 3*time.Second)
		wantPodsAt(t, c, 2)
		if s.Err() != nil {
			t.Error(s.Err())
		}
	})
}

// An object whose record is not there, which only the count tells, does not either.
func TestAttachToAFileThatLacksARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, holder, c := detachedPods(t, Options{})
		err := Tamper(holder.liveCollections()[0], func(b *bolt.Bucket) error {
			k, _ := b.Bucket(bucketObjects).Cursor().First()
			return b.Bucket(bucketObjects).Delete(bytes.Clone(k))
		})
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, holder)
		mustAttach(t, s, 3*time.Second)
		wantPodsAt(t, c, 2)
		if s.Err() != nil {
			t.Error(s.Err())
		}
	})
}

// Damage of what is in memory is not held against the file, which is left as it is.
func TestAttachFromDamagedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, holder, c := detachedPods(t, Options{})
		err := Tamper(c, func(b *bolt.Bucket) error {
			k, data := b.Bucket(bucketObjects).Cursor().First()
			bad := append([]byte(nil), data...)
			bad[len(bad)-5] ^= 1
			return b.Bucket(bucketObjects).Put(k, bad)
		})
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, holder)
		time.Sleep(10 * time.Minute)
		if err := s.Detached(); err == nil || isDamaged(err) {
			t.Errorf("detached: %v", err)
		}
		wantNames(t, filepath.Dir(s.Path()), "store")
		other := mustOpen(t, s.Path(), Options{LockTimeout: -1})
		old, err := openCompactPods(other)
		if err != nil {
			t.Fatal(err)
		}
		wantPodsAt(t, old, 1)
		mustClose(t, other)
	})
}

// After a write in memory of which nobody knows the outcome, the objects that are decoded are those of the file once there is one.
func TestAttachAfterAFailureInMemory(t *testing.T) {
	for name, residency := range map[string]Residency{"All": All, "Bounded": Bounded(1 << 20), "None": None} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gate hook.Gate
				path := filepath.Join(t.TempDir(), "store")
				s, err := OpenInMemory(path, Options{Logger: &quiet, CommitInterval: -1, Hooks: &hook.Hooks{Commit: gate.Commit}})
				if err != nil {
					t.Fatal(err)
				}
				c, err := s.Collection(t.Context(), pods(), CollectionOptions{Codec: mustCodec(t, &corev1.Pod{}), Residency: residency})
				if err == nil {
					err = listPods(c, 1)
				}
				if err == nil {
					err = c.WaitResident(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				gate.After(func() error { return syscall.ENOMEM })
				if err := compactStep(c, 2); !errors.Is(err, ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				gate.After(nil)
				if err := Attach(s); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				wantPodsAt(t, c, 2)
				if err := compactStep(c, 3); err != nil {
					t.Fatal(err)
				}
				wantPodsAt(t, c, 3)
				mustClose(t, s)
			})
		})
	}
}

// That memory was found good says nothing of the file.
func TestAttachForgetsAboutScrubbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, holder, c := detachedPods(t, Options{})
		wantPodsAt(t, c, 2)
		if s.Scrubbed().IsZero() {
			t.Error("memory has not been scrubbed")
		}
		mustClose(t, holder)
		mustAttach(t, s, 3*time.Second)
		if at := s.Scrubbed(); !at.IsZero() {
			t.Errorf("the file was found good at %v, and nobody has looked", at)
		}
		mustClose(t, s)
	})
}

// A collection that was in memory is in use: the next who looks for those that are not does not drop it.
func TestAttachNotesUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, holder, c := detachedPods(t, Options{})
		setLastUsed(t, holder, time.Now().Add(-100*24*time.Hour))
		mustClose(t, holder)
		mustAttach(t, s, 3*time.Second)
		mustEnd(t, c)
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		if got := inFile(t, s); len(got) != 1 {
			t.Errorf("in the file: %q", got)
		}
		mustClose(t, s)
	})
}

// What is no store, or a newer one, is left alone. All goes on in memory, says why, and goes to the file once there is one that can be used.
func TestAttachToAFileThatCanNotBeUsed(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(t *testing.T, holder *Store)
		want  error
	}{
		"Newer": {func(t *testing.T, holder *Store) {
			if err := holder.update(t.Context(), func(tx *bolt.Tx) error { return putFormat(tx, formatVersion+1) }); err != nil {
				t.Fatal(err)
			}
			mustClose(t, holder)
		}, ErrNewerFormat},
		"Foreign": {func(t *testing.T, holder *Store) {
			mustClose(t, holder)
			if err := os.WriteFile(holder.Path(), []byte(strings.Repeat("a letter to a friend\n", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, holder, c := detachedPods(t, Options{})
				test.spoil(t, holder)
				before, err := os.ReadFile(s.Path())
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				if err := s.Detached(); !errors.Is(err, test.want) || !errors.Is(err, ErrDetached) {
					t.Fatalf("detached: %v", err)
				}
				if after, err := os.ReadFile(s.Path()); err != nil || string(after) != string(before) {
					t.Error("the file was written", err)
				}
				wantPodsAt(t, c, 2)
				if err := os.Remove(s.Path()); err != nil {
					t.Fatal(err)
				}
				mustAttach(t, s, 2*attachEveryMax)
				wantPodsAt(t, c, 2)
			})
		})
	}
}

// On a full disk all goes on in memory, and the file is as the older process has left it; when there is room again it is brought up to date.
func TestAttachOnAFullDisk(t *testing.T) {
	for name, first := range map[string]int{"AtOnce": 0, "AfterTheFirstWrite": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gate hook.Gate
				s, holder, c := detachedPods(t, Options{Hooks: &hook.Hooks{Commit: gate.Commit}})
				failed, from := 0, gate.Attempts()+first
				gate.Fail(func() error {
					if gate.Attempts() <= from {
						return nil
					}
					failed++
					return syscall.ENOSPC
				})
				mustClose(t, holder)
				time.Sleep(10 * time.Second)
				if err := s.Detached(); !errors.Is(err, ErrNoSpace) || failed == 0 {
					t.Fatalf("detached: %v; %d writes failed", err, failed)
				}
				wantPodsAt(t, c, 2)
				if err := compactStep(c, 3); err != nil {
					t.Fatal(err)
				}
				gate.Fail(nil)
				other := mustOpen(t, s.Path(), Options{})
				old, err := openCompactPods(other)
				if err != nil {
					t.Fatal(err)
				}
				wantPodsAt(t, old, 1)
				mustClose(t, other)
				mustAttach(t, s, 2*attachEveryMax)
				wantPodsAt(t, c, 3)
			})
		})
	}
}

// A store that never gets its file closes as any other, and leaves the file alone.
func TestCloseWhileDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, holder, _ := detachedPods(t, Options{})
		mustClose(t, s)
		wantNames(t, filepath.Dir(s.Path()), "store")
		wantPodsAt(t, holder.liveCollections()[0], 1)
		mustClose(t, holder)
		time.Sleep(time.Minute)
		wantNames(t, filepath.Dir(s.Path()), "store")
	})
}

// Close while the file is being taken over waits for the write that has begun, and no longer than for any other.
func TestCloseWhileAttaching(t *testing.T) {
	for attempt := range 3 { // which commit it is that hangs: the first is that of opening the file
		t.Run(fmt.Sprint(attempt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gate hook.Gate
				s, holder, c := detachedPods(t, Options{Hooks: &hook.Hooks{Commit: gate.Commit}})
				if err := c.store.PutDocument(t.Context(), "d", []byte("x")); err != nil {
					t.Fatal(err)
				}
				from, held := gate.Attempts(), make(chan struct{})
				gate.Fail(func() error {
					if gate.Attempts() == from+1+attempt {
						<-held
					}
					return nil
				})
				mustClose(t, holder)
				time.Sleep(5 * time.Second)
				if s.Detached() == nil {
					t.Fatal("nothing hangs")
				}
				if err := compactStep(c, 3); err != nil { // nobody waits but Close
					t.Fatal(err)
				}
				if all, _ := mustListAll(t, c); all[0].ResourceVersion != "3" {
					t.Errorf("read %s", all[0].ResourceVersion)
				}
				began := time.Now()
				if err := s.Close(); !errors.Is(err, ErrStillWriting) || time.Since(began) != closeWait {
					t.Fatalf("closed after %v: %v", time.Since(began), err)
				}
				close(held)
				synctest.Wait()
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				wantNames(t, filepath.Dir(s.Path()), "store")
				again := mustOpen(t, s.Path(), Options{LockTimeout: -1})
				b, err := openCompactPods(again)
				if err != nil {
					t.Fatal(err)
				}
				_, info := mustListAll(t, b)
				n := uint64(0)
				if _, err := fmt.Sscan(info.ResourceVersion, &n); err != nil {
					t.Fatal(err)
				}
				wantPodsAt(t, b, n)
				if attempt == 0 && n != 1 {
					t.Errorf("at %d", n)
				}
			})
		})
	}
}

// What needs the file is refused without it.
func TestDetachedRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, c := detachedPods(t, Options{})
		ctx := t.Context()
		if _, err := s.Compact(ctx); !errors.Is(err, ErrDetached) {
			t.Errorf("compact: %v", err)
		}
		if err := s.Rebuild(ctx); !errors.Is(err, ErrDetached) {
			t.Errorf("rebuild: %v", err)
		}
		if err := c.ForgetHandler(ctx, "h"); !errors.Is(err, ErrDetached) {
			t.Errorf("forget a handler: %v", err)
		}
		if s, err := Open(s.Path(), Options{LockTimeout: -1, ReadOnly: true, MemoryWhileLocked: true, Logger: &quiet}); !errors.Is(err, ErrLocked) || s != nil {
			t.Errorf("for reading: %v", err)
		}
	})
}

// A collection that the file has would be back with it: nobody is told that it is gone.
func TestDropWhileDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, holder, c := detachedPods(t, Options{})
		mustEnd(t, c)
		if err := s.Drop(t.Context(), c.Identity()); !errors.Is(err, ErrDetached) {
			t.Errorf("without the file: %v", err)
		}
		mustClose(t, holder)
		mustAttach(t, s, 3*time.Second)
		if err := s.Drop(t.Context(), c.Identity()); err != nil {
			t.Errorf("with it: %v", err)
		}
		if got := inFile(t, s); len(got) != 0 {
			t.Errorf("in the file: %q", got)
		}
		mustClose(t, s)
	})
}

// childAttach takes over a file again and again from a process that has left it behind, and says at what it has left it.
func childAttach(path string) error {
	ctx := context.Background()
	for {
		old, err := Open(path, Options{Logger: &quiet, CommitInterval: -1, LockTimeout: 10 * time.Second})
		if err != nil {
			return err
		}
		b, err := openCompactPods(old)
		if err != nil {
			return err
		}
		info, err := b.Info(ctx)
		if err != nil {
			return err
		}
		n := uint64(0)
		if _, err := fmt.Sscan(info.ResourceVersion, &n); err != nil {
			return err
		}
		fmt.Println(n)
		s := newStore(path, Options{Logger: &quiet, CommitInterval: time.Hour})
		if err := s.openInMemory(context.Background(), ErrLocked); err != nil {
			return err
		}
		c, err := openCompactPods(s)
		if err == nil {
			err = listPods(c, n+1)
		}
		if err == nil {
			err = compactStep(c, n+2) // pending
		}
		if err == nil {
			err = old.Close()
		}
		if err == nil {
			err = s.attach(ctx)
		}
		if err != nil {
			return err
		}
		fmt.Println(n + 1)
		if err := s.Close(); err != nil {
			return err
		}
		fmt.Println(n + 2)
	}
}

// TestKilledWhileAttaching kills a process that takes over a file, at random moments: the file is as it was left, or as it was in memory, and never between.
func TestKilledWhileAttaching(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	first := mustOpen(t, path, Options{})
	c, err := openCompactPods(first)
	if err == nil {
		err = listPods(c, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, first)
	kills, last := soaked(12, 400), uint64(1)
	within := 200 * time.Millisecond
	for kill := 0; kill < kills || last < 3 && kill < 4*kills; kill++ { // more, until they show something
		said, before := killChild(t, "attach", path, rand.N(within)), last
		s := mustOpen(t, path, Options{})
		if s.Quarantined() != "" {
			t.Fatalf("kill %d: a good file was moved aside", kill)
		}
		c, err := openCompactPods(s)
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		all, info := mustListAll(t, c)
		_, _ = fmt.Sscan(info.ResourceVersion, &n)
		// What is in memory is two steps ahead. The child may not have had the time to say that it has left it in the file.
		if last = max(last, said); n < last || n > last+2 || n%2 == 0 || info.MustRelist != "" || !info.Complete {
			t.Fatalf("kill %d: the child said %d, the store has %+v", kill, last, info)
		}
		if last = n; n == before { // the child may need more time here
			within = min(within+within/4, 10*time.Second)
		}
		for _, p := range all {
			if p.ResourceVersion != info.ResourceVersion {
				t.Fatalf("kill %d: %s is at %s, the collection at %s", kill, p.Name, p.ResourceVersion, info.ResourceVersion)
			}
		}
		wantPodsAt(t, c, n)
		mustClose(t, s)
		wantNames(t, filepath.Dir(path), "store")
	}
	if last < 3 {
		t.Error("no child has taken over the file")
	}
}

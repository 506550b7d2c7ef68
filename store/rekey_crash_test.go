package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

const rekeyKeys = "one:b25lIGtleSBvZiAzMiBieXRlcyBmb3IgYSB0ZXN0ISE=\ntwo:dHdvIGtleXMgb2YgMzIgYnl0ZXMgZm9yIGEgdGVzdCE="

func rekeyEncryption() (*seal.Encryption, *rotating, error) {
	first, second, _ := strings.Cut(rekeyKeys, "\n")
	keys := &rotating{}
	for i, text := range []string{rekeyKeys, second + "\n" + first} {
		var err error
		if keys.rotation[i], err = seal.ParseKeys([]byte(text)); err != nil {
			return nil, nil, err
		}
	}
	return &seal.Encryption{Keys: keys, Resources: []schema.GroupResource{{Resource: "pods"}}}, keys, nil
}

// rotating is a KeyProvider that alternates between two sets of keys, whose current keys differ.
type rotating struct {
	rotation [2]*seal.Keys
	now      atomic.Int32
}

func (r *rotating) rotate() { r.now.Add(1) }

func (r *rotating) keys() *seal.Keys { return r.rotation[r.now.Load()%2] }

func (r *rotating) CurrentKey(ctx context.Context) (string, error) { return r.keys().CurrentKey(ctx) }

func (r *rotating) Wrap(ctx context.Context, key []byte) (string, []byte, error) {
	return r.keys().Wrap(ctx, key)
}

func (r *rotating) Unwrap(ctx context.Context, id string, wrapped []byte) ([]byte, error) {
	return r.keys().Unwrap(ctx, id, wrapped)
}

// childRekey writes and rekeys without end, with alternating keys, and prints the number of each committed step.
func childRekey(path string) error {
	e, keys, err := rekeyEncryption()
	if err != nil {
		return err
	}
	s, err := store.Open(path, store.AtOnce(store.Options{Logger: &quiet, LockTimeout: 10 * time.Second,
		Encryption: e}))
	if err != nil {
		return err
	}
	c, err := openCompactPods(s)
	if err != nil {
		return err
	}
	info, err := c.Info(context.Background())
	if err != nil {
		return err
	}
	n := uint64(0)
	_, _ = fmt.Sscan(info.ResourceVersion, &n)
	return stepForEver(c, n, func(ctx context.Context) (store.Compacted, error) {
		keys.rotate()
		return s.Rekey(ctx)
	})
}

// TestKilledWhileRekeying kills a process at random moments while it rekeys. The store must have all committed steps,
// neither the store nor an unfinished copy may contain plain text, and the next Open must remove the copy.
func TestKilledWhileRekeying(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	random := rand.New(rand.NewPCG(11, 12))
	kills := soaked(6, 60)
	last, copies := uint64(0), 0
	for kill := 0; kill < kills || (copies == 0 || last < 3) && kill < 20*kills; kill++ {
		// Later kills follow until a kill has left a copy and three steps are committed.
		said := killChild(t, "rekey", path, time.Duration(random.IntN(60_000*(1+kill/kills)))*time.Microsecond)
		left := disk.Beside(path, disk.SuffixNew)
		copies += len(left)
		for _, name := range append(left, path) {
			data, err := os.ReadFile(name)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if bytes.Contains(data, []byte(strings.Repeat("y", 50))) || bytes.Contains(data, []byte("node-3")) {
				t.Fatalf("kill %d: there is plain text in %s", kill, name)
			}
		}
		e, _, err := rekeyEncryption()
		if err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, path, store.Options{Encryption: e})
		if s.Quarantined() != "" {
			t.Fatalf("kill %d: a good file was moved aside", kill)
		}
		c, err := openCompactPods(s)
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		objs, info := mustListAll(t, c)
		_, _ = fmt.Sscan(info.ResourceVersion, &n)
		if last = max(last, said); n != last && n != last+1 {
			t.Fatalf("kill %d: the child said %d, the store has %d", kill, last, n)
		}
		last = n
		wantStep(t, kill, n, objs, info)
		// The killed process may have begun to write under the other encryption key, with a second data key.
		if ids, err := dataKeys(s); err != nil || n > 0 && len(ids) != 1 && len(ids) != 2 {
			t.Fatalf("kill %d: %d data keys, %v", kill, len(ids), err)
		}
		wantSound(t, s)
		mustClose(t, s)
		wantNames(t, filepath.Dir(path), "store")
	}
	if copies == 0 {
		t.Error("no kill came while there was a copy")
	}
	if last < 3 {
		t.Errorf("the children came to step %d only", last)
	}
	t.Logf("%d kills came while there was a copy, up to step %d", copies, last)
}

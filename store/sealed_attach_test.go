package store

import (
	"errors"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAttachToASealedFile: without keys, or with a wrong one, the store stays in memory, and the file as it is; with the right one it takes the file over.
func TestAttachToASealedFile(t *testing.T) {
	key := mustKey(t, "")
	for name, test := range map[string]struct {
		e    *Encryption
		want error
	}{"no keys": {nil, ErrSealed}, "a wrong key": {sealing(t, mustKey(t, "")), ErrWrongKey}, "the key": {sealing(t, key), nil}} {
		for _, listed := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "store")
				writeSealed(t, path, 10, sealing(t, key))
				s, err := OpenInMemory(path, Options{Logger: &quiet, Encryption: test.e})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				c := mustCollection(t, s, pods())
				if listed {
					mustList(t, c, 12)
				}
				if err := Attach(s); !errors.Is(err, test.want) {
					t.Fatalf("attach: %v", err)
				}
				if test.want != nil {
					if listed {
						wantPods(t, c, 12, nil)
					}
					mustClose(t, s)
					s = mustOpen(t, path, Options{Encryption: sealing(t, key)})
					wantPods(t, mustCollection(t, s, pods()), 10, nil)
					mustClose(t, s)
					return
				}
				n := 10
				if listed {
					n = 12
				}
				wantPods(t, c, n, nil)
				wantIndexed(t, c, n)
				applyNewer(t, c, 0, 5, 5000)
				wantDataKeys(t, s, 1)
				wantSound(t, s)
				if plain, err := PlainRecords(s); err != nil || plain > 0 || !mustInfo(t, c).Sealed {
					t.Errorf("%d records in plain text, %v", plain, err)
				}
				mustClose(t, s)
				s = mustOpen(t, path, Options{Encryption: sealing(t, key)})
				wantPods(t, mustCollection(t, s, pods()), n, func(p *corev1.Pod) {
					if p.Name < "pod-0005" {
						p.ResourceVersion = "5000"
					}
				})
				mustClose(t, s)
			})
		}
	}
}

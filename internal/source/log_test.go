package source

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// interrupted is a Logger that calls the function meanwhile before it passes the first change of a log to the reader.
type interrupted struct {
	Logger
	meanwhile func()
}

func (i *interrupted) Log(ctx context.Context, q LogQuery, fn func(Logged) error) (time.Time, error) {
	return i.Logger.Log(ctx, q, func(c Logged) error {
		if i.meanwhile != nil {
			i.meanwhile()
			i.meanwhile = nil
		}
		return fn(c)
	})
}

// TestLogWhileObjectsChange checks that a log misses no object, and has none twice, while objects change.
func TestLogWhileObjectsChange(t *testing.T) {
	w := newWatched(t)
	w.write(t, "+a/before")
	const objects = 1200
	for n := range objects {
		w.write(t, fmt.Sprintf("+a/%04d", n))
	}
	after := uint64(1)
	file := NewFile(w.st)
	client, _ := serve(t, holding{file})
	for name, l := range map[string]Logger{"file": file, "socket": client} {
		status, err := file.Status(t.Context())
		must(t, err)
		all, err := LogAll(t.Context(), &interrupted{l, func() {
			w.write(t, "+a/0000 app=web", "-a/0001")
			for n := objects / 2; n < objects; n++ {
				w.write(t, fmt.Sprintf("+a/%04d app=%s", n, name))
			}
		}}, status.Collections, LogQuery{After: &after}, func(Collection, time.Time) {})
		must(t, err)
		received := map[string]int{}
		for _, c := range all {
			received[c.Key]++
		}
		for n := range objects {
			if key := fmt.Sprintf("a/%04d", n); received[key] != 1 {
				t.Fatalf("%s: %s was received %d times", name, key, received[key])
			}
		}
	}
	if _, err := NewFile(w.st).Log(t.Context(), LogQuery{Collection: "none"},
		func(Logged) error { return nil }); err == nil {
		t.Error("a collection that is not there has changes")
	}
}

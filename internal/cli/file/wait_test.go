package file

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-dev/larder/internal/source"
)

// hangs is a sync that answers the first request for its status. Later requests hang until the client gives up.
type hangs struct {
	source.Holder
	asked atomic.Int32
}

func (h *hangs) Status(ctx context.Context) (source.Status, error) {
	if h.asked.Add(1) > 1 {
		<-ctx.Done()
		return source.Status{}, ctx.Err()
	}
	return source.Status{Collections: []source.Collection{{Resource: "pods", Live: &source.Live{}}}}, nil
}

// TestWaitEndsInARequest checks the error if the timeout of wait ends a hanging request to the sync: it names the
// resources that the previous status reported as missing, and does not claim that no sync runs.
func TestWaitEndsInARequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := source.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	h := &hangs{}
	server := source.NewServer(h, source.Sync{})
	server.Start(l)
	defer func() { _ = server.Close() }()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = runWait(ctx, path, waitSynced, 2*time.Second, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "is not synced after 2s: pods") {
		t.Errorf("after %d requests: %v", h.asked.Load(), err)
	}
	if h.asked.Load() < 2 {
		t.Errorf("%d requests, want one that hung", h.asked.Load())
	}
}

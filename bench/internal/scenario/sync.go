package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/larder-dev/larder/internal/cli"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// runSync runs larder sync in this process, until it has synced.
func runSync(ctx context.Context, b *Bench) (_ Result, err error) {
	access, caFile := b.Case.Access, b.Case.File+".ca"
	args := []string{
		"sync", b.Kind.GVR.Resource, "--store", b.Case.File, "--server", access.Host, "--token", access.Token,
	}
	if access.CA != nil {
		if err := os.WriteFile(caFile, access.CA, 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--certificate-authority", caFile)
	}
	ctx, cancel := context.WithCancel(ctx)
	var log bytes.Buffer
	ended := make(chan int, 1)
	start := time.Now()
	go func() { ended <- cli.Run(ctx, args, command.IO{Out: io.Discard, Err: &log}) }()
	defer func() {
		cancel()
		if code := <-ended; code != 0 {
			err = errors.Join(err, fmt.Errorf("larder sync has ended with %d: %s", code, log.String()))
		}
	}()
	for ctx.Err() == nil && len(ended) == 0 {
		if objects, ok := Synced(ctx, b.Case.File); ok {
			if objects != b.Case.N {
				return nil, fmt.Errorf("larder sync holds %d objects, want %d", objects, b.Case.N)
			}
			return b.addMemory(Result{"synced": time.Since(start).Seconds()}), nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, errors.Join(ctx.Err(), errors.New("larder sync has not synced"))
}

// Synced asks the sync that holds the store how many objects its first collection has, and whether it has synced.
func Synced(ctx context.Context, store string) (objects int, synced bool) {
	socket, err := source.SocketPath(store)
	if err != nil {
		return 0, false
	}
	client, _, err := source.Dial(ctx, socket)
	if err != nil {
		return 0, false
	}
	defer client.Close() //nolint:errcheck // nothing was written
	status, err := client.Status(ctx)
	if err != nil || len(status.Collections) == 0 {
		return 0, false
	}
	c := status.Collections[0]
	return c.Objects, c.Live != nil && c.Live.Synced
}

package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/larder-dev/larder/bench/internal/larder"
	"github.com/larder-dev/larder/internal/cli"
	"github.com/larder-dev/larder/internal/cli/command"
)

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
		if objects, ok := larder.Synced(ctx, b.Case.File); ok {
			if objects != b.Case.N {
				return nil, fmt.Errorf("larder sync holds %d objects, want %d", objects, b.Case.N)
			}
			return b.addMemory(Result{"synced": time.Since(start).Seconds()}), nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, errors.Join(ctx.Err(), errors.New("larder sync has not synced"))
}

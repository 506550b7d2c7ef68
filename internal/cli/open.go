package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
)

// lockWait is how long sync waits for a reading command to let go of the file.
const lockWait = 10 * time.Second

// openMirror opens the store and an informer for each resource. The file is made last: a sync that can not
// begin leaves nothing behind.
func (o *syncOptions) openMirror(ctx context.Context, config *rest.Config, logger logr.Logger, args []string) (_ *mirror, err error) {
	var st *store.Store
	var infos []store.Info
	defer func() {
		if err != nil && st != nil {
			err = errors.Join(err, st.Close())
		}
	}()
	if !missing(o.store.path) {
		if st, err = openForSync(ctx, o.store.path, lockWait, logger); err != nil {
			return nil, err
		}
		if infos, err = st.Collections(ctx); err != nil {
			return nil, err
		}
	}
	plan, err := o.plan(ctx, config, infos, args)
	if err != nil {
		return nil, err
	}
	if st == nil {
		if st, err = openForSync(ctx, o.store.path, lockWait, logger); err != nil {
			return nil, err
		}
	}
	m := &mirror{File: source.NewFile(st)}
	for _, p := range plan {
		mb, err := newMember(st, p, o.persistSecrets)
		if err != nil {
			return nil, err
		}
		m.members = append(m.members, mb)
	}
	return m, nil
}

// openForSync opens the file for writing. It waits for a reader, but not for another sync.
func openForSync(ctx context.Context, path string, wait time.Duration, logger logr.Logger) (*store.Store, error) {
	options := store.Options{Logger: &logger}
	st, err := store.Open(path, options)
	if !errors.Is(err, store.ErrLocked) {
		return st, storeError(path, err)
	}
	if socket, pathErr := source.SocketPath(path); pathErr == nil {
		if client, who, dialErr := source.Dial(ctx, socket); dialErr == nil {
			_ = client.Close()
			return nil, withHint(fmt.Errorf("process %d, another larder sync, holds %s: %w", who.PID, path, err),
				"stop it, or mirror into another file")
		}
	}
	logger.Info("Waiting for a process that reads the store", "store", path)
	options.LockTimeout = wait
	st, err = store.Open(path, options)
	if errors.Is(err, store.ErrLocked) {
		return nil, withHint(err, "find the process that has %s open and stop it", path)
	}
	return st, storeError(path, err)
}


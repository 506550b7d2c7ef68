package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

const (
	waitSynced = "synced"
	waitLive   = "live"
)

const (
	waitWithin = time.Minute
	waitEvery  = 100 * time.Millisecond
)

// NewWait returns larder wait.
func NewWait(s command.IO) *cobra.Command {
	var path, state string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait [FILE]",
		Short: "Wait until the sync of a store has caught up with the API server",
		Long: `Wait until the larder sync of a store has caught up with the API server. It also waits for a sync
that has not started yet, and for a file that does not exist yet.

  --for synced  each resource has been listed, or its watch has resumed, since the sync started. The default
  --for live    each resource is in contact with the server now

Resources that the API server forbids (403) count only if the sync was given their names.

Exits with 0 on success, and with 1 after --timeout; the error names the missing resources.`,
		Example: `  larder sync --all --store cluster.db & larder wait cluster.db
  larder wait cluster.db --for live --timeout 5m`,
		Args: command.MaxOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.OnlyFile(&path, "store", args); err != nil {
				return err
			}
			if path = command.OrVariable(path); path == "" {
				return command.Usagef("wait needs the FILE of a store, or %s", command.StoreVariable)
			}
			if state != waitSynced && state != waitLive {
				return command.Usagef("--for is %q; it can be %s or %s", state, waitSynced, waitLive)
			}
			return runWait(cmd.Context(), path, state, timeout, waitEvery)
		},
		ValidArgsFunction: command.CompleteFile,
	}
	f := cmd.Flags()
	f.StringVar(&state, "for", waitSynced, "the `STATE` to wait for: "+waitSynced+" or "+waitLive)
	command.CompleteFlag(cmd, "for", cobra.FixedCompletions([]cobra.Completion{waitSynced, waitLive},
		cobra.ShellCompDirectiveNoFileComp))
	f.DurationVar(&timeout, "timeout", waitWithin, "fail after this `DURATION`, such as 5m; 0 waits for ever")
	return cmd
}

// runWait requests the status of the sync until no resource is missing. It never opens the file, because a sync that is
// starting needs the file's lock.
func runWait(ctx context.Context, path, state string, timeout, every time.Duration) error {
	if input.IsSnapshot(path) && !input.Missing(path) {
		return command.Usagef("%s is a snapshot, which does not change", path)
	}
	limited, cancel := context.WithCancel(ctx)
	if timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	var missing []string
	var err error
	for {
		now, failed := missingOf(limited, path, state)
		if failed == nil && len(now) == 0 || errors.Is(failed, source.ErrOtherVersion) {
			return failed
		}
		if limited.Err() == nil || failed == nil {
			// A request that failed only because of the timeout says nothing about the sync.
			missing, err = now, failed
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return waitError(path, state, timeout, missing, err)
		case <-time.After(every):
		}
	}
}

func waitError(path, state string, timeout time.Duration, missing []string, err error) error {
	if len(missing) > 0 {
		return command.WithHint(fmt.Errorf("%s is not %s after %s: %s", path, state, timeout, input.Some(missing)),
			"larder status %s says why", path)
	}
	return command.WithHint(command.Reworded(err, "no larder sync runs on %s after %s", path, timeout),
		"start it: larder sync RESOURCE… --store %s", path)
}

// missingOf returns the labels of the mirrored resources that have not reached the state. A forbidden resource that the
// user did not request by name counts only if no other resource has the state. missingOf fails if no sync has the file
// open.
func missingOf(ctx context.Context, path, state string) (missing []string, err error) {
	client, _, err := source.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	status, err := client.Status(ctx)
	if err != nil {
		return nil, err
	}
	var left []string
	reached := 0
	for _, c := range status.Collections {
		switch {
		case c.Live == nil:
			continue
		case input.Forbidden(c) && c.Live.Optional:
			left = append(left, input.Label(c))
			continue
		}
		reached++
		if !c.Live.Synced || state == waitLive && c.Live.Source != string(informer.Live) {
			missing = append(missing, input.Label(c))
		}
	}
	if reached == 0 { // no resource has reached the state, perhaps because none is mirrored
		missing = left
	}
	return missing, nil
}

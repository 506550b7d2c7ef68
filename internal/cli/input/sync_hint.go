package input

import (
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// SyncCommand is a larder sync for a hint, of resources into a store that has these collections. If changes are kept of
// one, it goes on keeping them: a sync that is not told to frees what was kept.
func SyncCommand(storePath string, stored []source.Collection, resources string) string {
	line := "larder sync " + strings.ReplaceAll(resources, ",", "") + " --store " + storePath
	var keep time.Duration
	for _, c := range stored {
		if c.Changes == nil {
			continue
		}
		if d, err := time.ParseDuration(c.Changes.KeptFor); err == nil {
			keep = max(keep, d)
		}
	}
	if keep > 0 {
		line += " --keep-changes " + command.Span(keep)
	}
	return line
}

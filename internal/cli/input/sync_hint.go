package input

import (
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// SyncCommand returns, for a hint, a larder sync command line that mirrors the resources into a store that has the
// stored collections. If a collection keeps changes, the line has the flag that keeps them, because a sync without the
// flag deletes the changelog.
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

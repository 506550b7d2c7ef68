package input

import (
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// SyncCommand returns a larder sync command line for a hint. It mirrors the resources into a store that has the stored
// collections. It has the flag that keeps changes if one of the collections keeps them, because a sync without the flag
// deletes the changelog.
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

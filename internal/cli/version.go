package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

func newVersion(s command.IO) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the formats of files",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.Out, versionText())
			return err
		},
	}
}

func versionText() string {
	return fmt.Sprintf("larder %s (%s, %s/%s)\ncommit %s\nstore format %d, snapshot format %d",
		source.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, commit(), store.FormatVersion,
		snapshot.FormatVersion)
}

// commit returns the git commit from which the program was built, and the commit's time, as go build records them;
// "unknown" without that record. A program from go install larder@VERSION has no record: its version identifies it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.revision"] == "" {
		return "unknown"
	}
	text := settings["vcs.revision"] + " of " + settings["vcs.time"]
	if settings["vcs.modified"] == "true" {
		text += ", with changes"
	}
	return text
}

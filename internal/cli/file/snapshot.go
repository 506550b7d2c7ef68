package file

import (
	"fmt"
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
)

func printSnapshot(s command.IO, status source.Status) {
	about := status.Snapshot
	what := "a snapshot"
	if about.Encrypted {
		what = "an encrypted snapshot"
	}
	fmt.Fprintf(s.Out, "Snapshot:  %s, %s in format %d, %s\n", status.Store, what, about.Format,
		command.Size(status.Bytes))
	taken := "at an unknown time"
	if !about.TakenAt.IsZero() {
		taken = about.TakenAt.UTC().Format(time.RFC3339) + ", " + command.AgeOf(s.Now(), about.TakenAt) + " ago"
	}
	if about.Larder != "" {
		taken += ", by larder " + terminal.OneLine(about.Larder)
	}
	fmt.Fprintf(s.Out, "Taken:     %s\n", taken)
	var cluster []string
	if about.ClusterID != "" {
		cluster = append(cluster, terminal.OneLine(about.ClusterID))
	}
	if about.ServerVersion != "" {
		cluster = append(cluster, "server "+terminal.OneLine(about.ServerVersion))
	}
	if len(cluster) == 0 {
		cluster = []string{"unknown"}
	}
	fmt.Fprintf(s.Out, "Cluster:   %s\n", strings.Join(cluster, ", "))
	for _, left := range about.LeftOut {
		fmt.Fprintf(s.Out, "Left out:  %s\n", terminal.OneLine(left))
	}
}

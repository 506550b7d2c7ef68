package snapshots

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/snapshot"
)

// redactFlag is the flag --redact, which names values to remove from a snapshot.
type redactFlag struct{ what []string }

func (f *redactFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.what, "redact", nil,
		"replace values with REDACTED. `WHAT` is secrets, configmaps (their data), annotations=PATTERN, env=PATTERN (* is "+
			"any text), or managedfields, which are removed; several with commas")
}

func (f *redactFlag) redaction() (snapshot.Redaction, error) {
	var r snapshot.Redaction
	for _, what := range f.what {
		name, pattern, hasPattern := strings.Cut(what, "=")
		name = strings.ToLower(name)
		takesPattern := name == "annotations" || name == "env"
		switch {
		case takesPattern && pattern == "":
			return r, command.Usagef("--redact %s needs a pattern, as in %[1]s=*token*; %[1]s=* is all of them", name)
		case hasPattern && !takesPattern:
			return r, command.Usagef("--redact %s takes no pattern", name)
		}
		switch name {
		case "secrets":
			r.Secrets = true
		case "configmaps":
			r.ConfigMaps = true
		case "managedfields":
			r.ManagedFields = true
		case "annotations":
			r.Annotations = append(r.Annotations, pattern)
		case "env":
			r.Env = append(r.Env, pattern)
		default:
			return r,
				command.Usagef(
					"--redact does not know %q; it takes secrets, configmaps, annotations=PATTERN, env=PATTERN and managedfields",
					name)
		}
	}
	return r, nil
}

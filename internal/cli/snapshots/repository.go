package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/schemes"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/remote"
)

const repositoryHelp = `A repository is ` + schemes.URLs + `. Credentials of S3 come from the
environment, as for the tools of AWS (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ~/.aws, the role of the pod or machine),
and those of a registry from docker login. https:// is read-only: it is for a web server or CDN on the directory or
bucket.`

func newSnapshotPush(s command.IO) *cobra.Command {
	var identity input.IdentityFlag
	cmd := &cobra.Command{
		Use:   "push SNAPSHOT REPOSITORY",
		Short: "Put a snapshot into a repository",
		Long: `Put a snapshot into a repository, under a name made of the time at which it was taken. It is then the
latest there, which larder sync --seed and pull use. An encrypted snapshot that --identity does not decrypt counts as
being as old as its file.

` + repositoryHelp,
		Example: `  larder snapshot push cluster.larder /srv/snapshots/
  larder snapshot push cluster.larder s3://snapshots/production/
  larder snapshot push cluster.larder oci://registry.example.com/production/state`,
		Args: command.NeedArgs(2, 2, "a snapshot and a repository"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := optionsOf(s, &identity, nil)
			if err != nil {
				return err
			}
			r, err := repositoryAt(args[1], o)
			if err != nil {
				return err
			}
			name, err := push(cmd.Context(), s, r, args[0], o)
			if err != nil {
				return command.IfInterrupted(cmd.Context(), repositoryError(err), "it may be there")
			}
			_, err = fmt.Fprintln(s.Out, name)
			return err
		},
		ValidArgsFunction: command.CompleteFile,
	}
	identity.AddIdentity(cmd)
	return cmd
}

// push uploads a snapshot to a repository. Before that, it verifies as much of the snapshot as can be decrypted.
func push(ctx context.Context, s command.IO, r *remote.Repository, path string, o remote.Options) (string, error) {
	if err := r.Prepare(); err != nil {
		return "", err
	}
	defer s.Busy("pushing")()
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sound, err := snapshot.Open(path, snapshot.OpenOptions{Identities: o.Identities})
	if errors.Is(err, snapshot.ErrEncrypted) {
		return r.Push(ctx, f)
	}
	if err != nil {
		return "", err
	}
	report, err := sound.Verify(ctx)
	if err = errors.Join(err, sound.Close()); err == nil && len(report.Problems) > 0 {
		err = fmt.Errorf("%s is not pushed: %s", path, report.Problems[0])
	}
	if err != nil {
		return "", err
	}
	return r.Push(ctx, f)
}

func newSnapshotPull(s command.IO) *cobra.Command {
	var identity input.IdentityFlag
	var keys []string
	force := false
	cmd := &cobra.Command{
		Use:   "pull URL FILE",
		Short: "Copy the latest snapshot of a repository, or one of them, to a file",
		Long: `Copy the latest snapshot of a repository, or the one that the URL names, to a file, and verify it. An
encrypted snapshot is only copied, unless --identity decrypts it. If the snapshot is invalid, no file is left.

` + repositoryHelp,
		Example: `  larder snapshot pull s3://snapshots/production/ cluster.larder
  larder snapshot pull https://cdn.example.com/cluster.larder old.larder
  larder snapshot pull oci://registry.example.com/production/state cluster.larder --signed-by sign.pub`,
		Args: command.NeedArgs(2, 2, "a URL, and the file to make"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := optionsOf(s, &identity, keys)
			if err != nil {
				return err
			}
			if err := remote.Check(args[0], o); err != nil {
				return command.Usage(err)
			}
			if err := (&saveOptions{force: force}).mayWrite(args[1]); err != nil {
				return err
			}
			done := s.Busy("pulling")
			name, verified, err := remote.Pull(cmd.Context(), args[0], args[1], o)
			done()
			if err != nil {
				return command.IfInterrupted(cmd.Context(), repositoryError(err), "nothing was written")
			}
			how := "verified"
			if !verified {
				how = "not verified, since it is encrypted"
			}
			_, err = fmt.Fprintf(s.Out, "%s: %s, %s\n", args[1], name, how)
			return err
		},
		ValidArgsFunction: command.CompleteFile,
	}
	identity.AddIdentity(cmd)
	cmd.Flags().StringArrayVar(&keys, "signed-by", nil,
		"refuse a snapshot that is not signed by this public `KEY` of minisign, or by the one in the file KEY; may be given "+
			"again")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing snapshot, once the new one is complete")
	return cmd
}

func newSnapshotList(s command.IO) *cobra.Command {
	var identity input.IdentityFlag
	var output command.OutputFlag
	var keys []string
	cmd := &cobra.Command{
		Use:   "list REPOSITORY",
		Short: "List the snapshots of a repository",
		Long: `List the snapshots of a repository, newest first, with their contents. (latest) marks the one that
larder sync --seed and pull use. --identity decrypts the snapshots, to show the contents of encrypted ones.

` + repositoryHelp,
		Example: `  larder snapshot list s3://snapshots/production/
  larder snapshot list /srv/snapshots/ -o json`,
		Args: command.NeedArgs(1, 1, "a repository"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			o, err := optionsOf(s, &identity, keys)
			if err != nil {
				return err
			}
			r, err := repositoryAt(args[0], o)
			if err != nil {
				return err
			}
			items, err := listed(cmd.Context(), s, r)
			if err != nil {
				return repositoryError(err)
			}
			if output.Format == "json" {
				return command.PrintJSON(s, catalogue(items))
			}
			if len(items) == 0 {
				_, err := fmt.Fprintf(s.Err, "There are no snapshots in %s.\n", r.Name())
				return err
			}
			return printCatalogue(s, items, len(keys) > 0)
		},
	}
	identity.AddIdentity(cmd)
	cmd.Flags().StringArrayVar(&keys, "signed-by", nil,
		"verify signatures with this public `KEY` of minisign, or with the one in the file KEY; may be given again. Without "+
			"it, the signers that the snapshots claim are shown")
	output.Add(cmd, "table", "json")
	return cmd
}

func listed(ctx context.Context, s command.IO, r *remote.Repository) ([]remote.Item, error) {
	defer s.Busy("listing")()
	items, err := r.List(ctx)
	if err == nil {
		err = r.Describe(ctx, items)
	}
	return items, err
}

// item is one snapshot of a repository, as commands print it in JSON.
type item struct {
	Name        string           `json:"name"`
	Taken       time.Time        `json:"taken"`
	Size        int64            `json:"size"`
	Latest      bool             `json:"latest,omitempty"`
	Encrypted   bool             `json:"encrypted"`
	SignedBy    string           `json:"signedBy,omitempty"`
	Cluster     string           `json:"cluster,omitempty"`
	Collections []itemCollection `json:"collections,omitempty"`
	Error       string           `json:"error,omitempty"`
}

type itemCollection struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
	Objects         int    `json:"objects"`
	Complete        bool   `json:"complete"`
}

func catalogue(items []remote.Item) []item {
	all := []item{}
	for _, it := range items {
		i := item{Name: it.Name, Taken: it.Taken, Size: it.Size, Latest: it.Latest,
			Encrypted: errors.Is(it.Err, snapshot.ErrEncrypted)}
		if it.Err != nil {
			i.Error = it.Err.Error()
		}
		if m := it.Manifest; m != nil {
			i.Taken, i.Encrypted, i.SignedBy, i.Cluster = m.TakenAt, m.Encrypted, m.SignatureKey, m.ClusterID
			for _, c := range m.Collections {
				i.Collections = append(i.Collections,
					itemCollection{c.Identity.String(), c.ResourceVersion, c.Objects, c.Complete})
			}
		}
		all = append(all, i)
	}
	return all
}

func printCatalogue(s command.IO, items []remote.Item, verified bool) error {
	t := terminal.NewTable(s.Out, "TAKEN", "CLUSTER", "COLLECTIONS", "OBJECTS", "SIZE", "KEPT AS", "NAME")
	for _, i := range catalogue(items) {
		var how []string
		if i.Encrypted {
			how = append(how, "encrypted")
		}
		switch {
		case i.SignedBy != "" && verified:
			how = append(how, "signed by "+i.SignedBy)
		case i.SignedBy != "":
			how = append(how, "says signed by "+i.SignedBy)
		}
		if i.Error != "" && !i.Encrypted {
			how = append(how, i.Error)
		}
		collections, objects := "", ""
		if i.Error == "" {
			n := 0
			for _, c := range i.Collections {
				n += c.Objects
			}
			collections, objects = fmt.Sprint(len(i.Collections)), fmt.Sprint(n)
		}
		name := i.Name
		if i.Latest {
			name += " (latest)"
		}
		t.Row(i.Taken.UTC().Format(time.RFC3339), command.OrDash(i.Cluster), command.OrDash(collections),
			command.OrDash(objects), command.Size(i.Size), command.OrDash(strings.Join(how, ", ")), name)
	}
	return t.Flush()
}

func newSnapshotPrune(s command.IO) *cobra.Command {
	var keep remote.Keep
	dry := false
	cmd := &cobra.Command{
		Use:   "prune REPOSITORY --keep-last N",
		Short: "Remove old snapshots from a repository",
		Long: `Remove the snapshots of a repository that no flag keeps. The latest is always kept, and so are files
that push has not made. A registry frees the space in its own garbage collection.

` + repositoryHelp,
		Example: `  larder snapshot prune s3://snapshots/production/ --keep-last 30 --keep-daily 7
  larder snapshot prune /srv/snapshots/ --keep-hourly 24 --dry-run`,
		Args: command.NeedArgs(1, 1, "a repository"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if min(keep.Last, keep.Hourly, keep.Daily, keep.Weekly) < 0 {
				return command.Usagef("prune cannot keep less than nothing")
			}
			if keep == (remote.Keep{}) {
				return command.Usagef(
					"prune needs to know what to keep: --keep-last, --keep-hourly, --keep-daily or --keep-weekly")
			}
			r, err := repositoryAt(args[0], schemes.Options())
			if err != nil {
				return err
			}
			kept, removed, err := r.Prune(cmd.Context(), keep, dry)
			what := "removed"
			if dry {
				what = "would remove"
			}
			for _, it := range removed {
				fmt.Fprintf(s.Out, "%s %s\n", what, it.Name)
			}
			if err != nil {
				return command.IfInterrupted(cmd.Context(), repositoryError(err), "what is named above is removed")
			}
			_, err = fmt.Fprintf(s.Out, "%s kept, %s %d\n", command.Counted(len(kept), "snapshot"), what, len(removed))
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&keep.Last, "keep-last", 0, "keep the newest `N`")
	f.IntVar(&keep.Hourly, "keep-hourly", 0, "keep the newest of each of the last `N` hours (of UTC) that have any")
	f.IntVar(&keep.Daily, "keep-daily", 0, "keep the newest of each of the last `N` days that have any")
	f.IntVar(&keep.Weekly, "keep-weekly", 0, "keep the newest of each of the last `N` weeks that have any")
	f.BoolVar(&dry, "dry-run", false, "print what would be removed, and remove nothing")
	return cmd
}

// optionsOf returns the options for reading snapshots from URLs: the public keys that verify signatures and the
// identities that decrypt.
func optionsOf(s command.IO, identity *input.IdentityFlag, keys []string) (o remote.Options, err error) {
	o = schemes.Options()
	if o.SignedBy, err = input.PublicKeys("signed-by", keys); err == nil && identity.Given() {
		o.Identities, err = identity.Identities(s)
	}
	return o, err
}

func repositoryAt(at string, o remote.Options) (*remote.Repository, error) {
	r, err := remote.NewRepository(at, o)
	if err != nil {
		return nil, command.Usage(command.WithHint(err, "a repository is "+schemes.URLs))
	}
	return r, nil
}

func repositoryError(err error) error {
	switch {
	case errors.Is(err, remote.ErrReadOnly):
		return command.Usage(err)
	case errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(*os.PathError)):
		return command.WithHint(err, "larder snapshot list REPOSITORY shows what there is")
	}
	return err
}

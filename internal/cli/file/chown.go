package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
)

// NewChown returns the hidden command larder chown. The init container of the DaemonSet in deploy/ runs it, because the
// image has no other program.
func NewChown() *cobra.Command {
	return &cobra.Command{
		Use:    "chown UID:GID DIRECTORY",
		Short:  "Give a directory and its content to a user and a group",
		Hidden: true,
		Args:   command.NeedArgs(2, 2, "UID:GID and a directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			var uid, gid int
			if n, err := fmt.Sscanf(args[0]+" ", "%d:%d ", &uid, &gid); n != 2 || err != nil || uid < 0 || gid < 0 {
				return command.Usagef("%q is not UID:GID, as in 65532:65532", args[0])
			}
			return chown(args[1], uid, gid)
		},
	}
}

// chown changes the owner of a directory and everything in it. It changes symbolic links and does not follow them.
func chown(dir string, uid, gid int) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(name, uid, gid)
	})
}

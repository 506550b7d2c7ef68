package cli

import (
	"fmt"
	"os"
	"strings"
)

// storeVariable names the file of a store where no flag does.
const storeVariable = "LARDER_STORE"

// orVariable is a path that a flag names, or the one of the variable.
func orVariable(path string) string {
	if path != "" {
		return path
	}
	return os.Getenv(storeVariable)
}

// onlyFile takes the one argument of a command that reads a file, in the place of the flag that names it.
func onlyFile(path *string, flag string, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case *path != "":
		return usagef("%q and --%s %s: name one file", args[0], flag, *path)
	}
	*path = args[0]
	return nil
}

// maxOneFile is the Args of such a command.
var maxOneFile = needArgs(0, 1, "one file at most")

// leadingFile takes a file that stands before the resources, and returns those. It is taken where --from names none and
// the argument can be no resource: it is a path, or a file that is called as stores and snapshots are.
func (f *fromFlag) leadingFile(args []string) []string {
	if f.path != "" || len(args) == 0 || !looksLikeFile(args[0]) {
		return args
	}
	if info, err := os.Stat(args[0]); os.Getenv(storeVariable) != "" && (err != nil || !info.Mode().IsRegular()) {
		return args // a resource of a group that is called so
	}
	f.path = args[0]
	return args[1:]
}

func looksLikeFile(arg string) bool {
	for _, prefix := range []string{"/", "./", "../"} {
		if strings.HasPrefix(arg, prefix) {
			return true
		}
	}
	return strings.HasSuffix(arg, ".db") || strings.HasSuffix(arg, snapshotSuffix)
}

// required is the error for a file that nobody has named.
func required(flag string) error {
	err := fmt.Errorf("--%s FILE is required", flag)
	return usageError{withHint(err, "or set the environment variable %s", storeVariable)}
}

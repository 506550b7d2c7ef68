package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/cli/command"

	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// StoreError adds a hint for the user to an error of opening a store for reading.
func StoreError(path string, err error) error {
	var held *source.HeldError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, source.ErrNoAnswer):
		return command.WithHint(err,
			"%s is stopped or stuck: let it go on (kill -CONT), or end it (kill -KILL), after which the file can be read",
			holderName(base.HoldersOf(path)))
	case errors.As(err, &held):
		if holders := base.HoldersOf(path); len(holders) > 0 {
			return command.WithHint(err,
				"a program other than larder sync holds the file, %s: stop it, since only a larder sync answers while it runs",
				HoldingAs(false, holders))
		}
		return command.WithHint(err,
			"a program other than larder sync holds the file: stop it, since only a larder sync answers while it runs")
	case IsDirectory(path):
		return DirectoryError(path)
	case CheckPath(path) != nil:
		return CheckPath(path)
	case errors.Is(err, fs.ErrNotExist):
		return absentError(path)
	case Missing(path):
		return EmptyError(path)
	case errors.Is(err, store.ErrForeign):
		return command.WithHint(command.Reworded(store.ErrForeign,
			"%s is no store and no snapshot: another program has written it", path), "name a store or a snapshot")
	}
	return PathError(path, err)
}

// holderName names the process that has a store open but does not answer on the store's socket.
func holderName(holders []base.Holder) string {
	if len(holders) == 1 {
		return holders[0].String()
	}
	return "the sync that holds it"
}

// snapshotSuffix is the usual suffix of snapshots. A store may have it, too.
const snapshotSuffix = ".larder"

// MakeSnapshot returns the hint that says how to make a snapshot at path.
func MakeSnapshot(path string) string {
	return fmt.Sprintf("larder snapshot save %s --from STORE makes one of a store, and of a live cluster without --from",
		path)
}

func absentError(path string) error {
	if strings.HasSuffix(path, snapshotSuffix) {
		return command.WithHint(fmt.Errorf("no snapshot and no store at %s", path),
			"there is no such file: check the name; %s",
			MakeSnapshot(path))
	}
	return command.WithHint(fmt.Errorf("no store at %s", path),
		"there is no such file: check the name. larder sync RESOURCE… --store %s makes a store, as soon as the server "+
			"answers: if it has just been started, try again; larder snapshot save makes a snapshot", path)
}

// EmptyError returns the error for an empty file.
func EmptyError(path string) error {
	err := fmt.Errorf("%s is empty: it is no store and no snapshot", path)
	if strings.HasSuffix(path, snapshotSuffix) {
		return command.WithHint(err, "remove it; %s", MakeSnapshot(path))
	}
	return command.WithHint(err, "fill it with: larder sync RESOURCE… --store %s", path)
}

// DirectoryError returns the error for a directory given instead of a file.
func DirectoryError(path string) error {
	err := fmt.Errorf("%s is a directory, not a store or snapshot", path)
	var there []string
	for _, pattern := range []string{"*.db", "*" + snapshotSuffix} {
		// Glob fails only for an invalid pattern, and the constant patterns are valid.
		found, _ := filepath.Glob(filepath.Join(path, pattern))
		there = append(there, found...)
	}
	if len(there) == 0 {
		return command.WithHint(err, "name a file; there is no store (*.db) and no snapshot (*%s) in it", snapshotSuffix)
	}
	return command.WithHint(err, "name a file in it, such as %s", there[0])
}

// IsDirectory reports whether there is a directory at path.
func IsDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// PathError explains an error of opening or creating a store by its path or by the file's content, and adds a hint.
func PathError(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case CheckPath(path) != nil:
		return CheckPath(path)
	case errors.Is(err, seal.ErrWrongKey), errors.Is(err, seal.ErrSealed):
		return KeyError(path, err, ByFlag)
	case errors.Is(err, store.ErrForeign) && IsSnapshot(path):
		return SnapshotOnly(path, "no store")
	case errors.Is(err, store.ErrForeign):
		return command.WithHint(command.Reworded(store.ErrForeign, "%s is no store: another program has written it", path),
			"it is left as it is; name another file")
	case errors.Is(err, store.ErrNewerFormat):
		return command.WithHint(err, "use a newer larder, or remove %s and let larder sync build it anew", path)
	case errors.Is(err, entry.ErrDamaged):
		return command.WithHint(err, "the next larder sync moves %s aside, and keeps what can be read", path)
	case errors.Is(err, syscall.EROFS):
		return command.WithHint(err, "that file system is read-only: mount it for writing, or name a file on another one")
	case errors.Is(err, store.ErrNoSpace):
		return command.WithHint(err, "make room on that disk, or name a file on another one")
	case errors.Is(err, fs.ErrPermission) && !Exists(path):
		return command.WithHint(fmt.Errorf("no store can be made at %s: %w", path, err),
			"name a file in a directory that you may write to")
	case errors.Is(err, fs.ErrPermission) && isBeside(path, err):
		return command.WithHint(err, "files are made beside the store: run as a user who may write to its directory, too")
	case errors.Is(err, fs.ErrPermission):
		return command.WithHint(err, "the store belongs to the user who ran larder sync; run as that user")
	case errors.Is(err, fs.ErrNotExist):
		return command.WithHint(fmt.Errorf("no store can be made at %s: %w", path, err),
			"name a file in another directory: this one takes no files")
	}
	return err
}

// CheckPath returns an error if no store can be at the path, such as the path of a directory.
func CheckPath(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return command.WithHint(fmt.Errorf("%s is a directory, not a store", path), "name a file in it, as in %s",
			filepath.Join(path, "cluster.db"))
	case err == nil && !info.Mode().IsRegular():
		return command.WithHint(fmt.Errorf("%s is a device or the like, not a store", path),
			"name a regular file, or one that is not there yet")
	case err == nil:
		return nil
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return command.WithHint(fmt.Errorf("there can be no store at %s: %s is a file, not a directory", path, dir),
				"name another file")
		case err == nil, dir == filepath.Dir(dir):
			return nil
		}
	}
}

// IsSnapshot reports whether the file at path is a snapshot.
func IsSnapshot(path string) bool {
	is, err := snapshot.Is(path)
	return err == nil && is
}

// IsOf reports whether an error is a fs.PathError about the file at path.
func IsOf(path string, err error) bool {
	var of *fs.PathError
	return errors.As(err, &of) && isSame(of.Path, path)
}

func isBeside(path string, err error) bool {
	var of *fs.PathError
	return errors.As(err, &of) && !isSame(of.Path, path)
}

// isSame reports whether two paths name the same file once symbolic links are resolved, because errors name the
// resolved path.
func isSame(a, b string) bool {
	real, err := base.RealPath(b)
	return a == b || err == nil && a == real
}

// Exists reports whether there is anything at path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ReadError adds a hint for the user to an error of reading an open store or snapshot.
func ReadError(path string, err error) error {
	if errors.Is(err, seal.ErrSealed) || errors.Is(err, seal.ErrWrongKey) {
		by := ByFlag
		if source.OfSync(err) {
			by += " to the larder sync that holds it"
		}
		return KeyError(path, err, by)
	}
	if errors.Is(err, entry.ErrDamaged) || errors.Is(err, snapshot.ErrDamaged) {
		if IsSnapshot(path) {
			return command.WithHint(err, "%s", DamagedHint(path))
		}
		return command.WithHint(err, "larder check --from %s lists what is damaged", path)
	}
	return err
}

// DamagedHint returns the hint for a damaged snapshot at path.
func DamagedHint(path string) string {
	return fmt.Sprintf("use another copy of %s, or take a new snapshot", path)
}

// Missing reports whether path does not exist or is an empty file.
func Missing(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// Holding names the processes that have a store open which could not be opened for writing. The processes may have
// closed the store since.
func Holding(path string) string {
	// If the store can be opened for reading, the other process is a reader, too: readers share the lock.
	st, err := store.Open(path, store.Options{ReadOnly: true, LockTimeout: -1})
	if err == nil {
		_ = st.Close()
	}
	return HoldingAs(!errors.Is(err, store.ErrLocked), base.HoldersOf(path))
}

// HoldingAs returns a text with the processes that have a store open. reading says whether they read or write it.
func HoldingAs(reading bool, holders []base.Holder) string {
	verb := "write"
	if reading {
		verb = "read"
	}
	if len(holders) == 0 {
		return "a process, which " + verb + "s it"
	}
	var who []string
	for _, h := range holders {
		who = append(who, h.String())
	}
	if len(who) == 1 {
		verb += "s"
	}
	return strings.Join(who, " and ") + ", which " + verb + " it"
}

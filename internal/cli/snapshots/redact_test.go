package snapshots

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/snapshot"
)

func TestRedaction(t *testing.T) {
	for _, tc := range []struct {
		what []string
		want snapshot.Redaction
		err  string
	}{
		{},
		{what: []string{"secrets", "ConfigMaps", "managedfields"},
			want: snapshot.Redaction{Secrets: true, ConfigMaps: true, ManagedFields: true}},
		{what: []string{"env=*TOKEN*", "env=X", "annotations=a/*"},
			want: snapshot.Redaction{Env: []string{"*TOKEN*", "X"}, Annotations: []string{"a/*"}}},
		{what: []string{"env"}, err: "needs a pattern"},
		{what: []string{"annotations="}, err: "needs a pattern"},
		{what: []string{"secrets=x"}, err: "takes no pattern"},
		{what: []string{"pods"}, err: `does not know "pods"`},
	} {
		got, err := (&redactFlag{what: tc.what}).redaction()
		if tc.err != "" {
			if command.ExitCode(err) != command.UsedWrongly || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q: got %v", tc.what, err)
			}
			continue
		}
		if d := cmp.Diff(tc.want, got); d != "" || err != nil {
			t.Errorf("%q: %s, %v", tc.what, d, err)
		}
	}
}

// TestSnapshotsWithoutPermission checks that a permission error names the file: the unreadable snapshot, or the new
// file that cannot be created. The test builds the errors itself, because it may run as root.
func TestSnapshotsWithoutPermission(t *testing.T) {
	denied := func(path string) error {
		return fmt.Errorf("restore: %w", &fs.PathError{Op: "open", Path: path, Err: syscall.EACCES})
	}
	o := restoreOptions{store: command.StoreFlag{Path: filepath.Join(t.TempDir(), "new.db")}}
	target := filepath.Join(t.TempDir(), "s.larder")
	for name, tc := range map[string]struct {
		err        error
		want, hint string
	}{
		"find": {o.noSnapshot("s.larder", denied("s.larder")), "s.larder cannot be read: ",
			"run as a user who may read it"},
		"read": {o.restoreError("s.larder", denied("s.larder")), "s.larder cannot be read: ",
			"run as a user who may read it"},
		"restore": {o.restoreError("s.larder", denied(o.store.Path+".new-1")), "no store can be made at " + o.store.Path,
			writeElsewhere},
		"save": {new(saveOptions).saveError(target, denied(target+".new-1")), "permission denied", writeElsewhere},
	} {
		if !strings.Contains(tc.err.Error(), tc.want) || !strings.HasPrefix(command.HintOf(tc.err), tc.hint) {
			t.Errorf("%s: %v, %q", name, tc.err, command.HintOf(tc.err))
		}
	}
	// An error of reading the store must not name the snapshot file.
	if err := new(saveOptions).saveError(target, denied("s.db")); command.HintOf(err) != "" {
		t.Errorf("%v has a hint", err)
	}
}

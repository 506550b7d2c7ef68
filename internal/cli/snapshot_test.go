package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
	"github.com/larder-dev/larder/store"
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

// Who may not read the snapshot, or not write beside the new file, is told which. The tests may run as a user who may
// do all.
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
	if err := new(saveOptions).saveError(target, denied("s.db")); command.HintOf(err) != "" { // what is read
		t.Errorf("%v has a hint", err)
	}
}

func TestFilterNamesOneResource(t *testing.T) {
	info := func(kind string) entry.ResourceInfo {
		return entry.ResourceInfo{Kind: kind, Namespaced: true, Categories: []string{"all"}}
	}
	var all []source.Collection
	for _, gvr := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "events"},
		{Group: "events.k8s.io", Version: "v1", Resource: "events"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
	} {
		c := source.NewCollection(store.Info{Identity: entry.Identity{GroupVersionResource: gvr},
			Resource: info(strings.TrimSuffix(gvr.Resource, "s"))})
		all = append(all, c)
	}
	for arg, want := range map[string][]string{
		"pods": {"pods"}, "deployment,pod": {"deployments.apps", "pods"}, "events": {"events.v1.", "events.v1.events.k8s.io"},
		"events.events.k8s.io": {"events.v1.events.k8s.io"}, "pods,pods": {"pods"},
		"all": {"pods", "events.v1.", "deployments.apps", "events.v1.events.k8s.io"},
	} {
		f, err := (&input.SelectFlags{}).Filter("s", all, []string{arg})
		less := func(a []string) map[string]bool {
			m := map[string]bool{}
			for _, x := range a {
				m[x] = true
			}
			return m
		}
		if d := cmp.Diff(less(want), less(f.Resources)); d != "" || err != nil {
			t.Errorf("%s: %s, %v", arg, d, err)
		}
	}
	if _, err := (&input.SelectFlags{}).Filter("s", all, []string{"gadgets"}); err == nil ||
		!strings.Contains(err.Error(), `no resource "gadgets"`) {
		t.Errorf("got %v", err)
	}
}

// What is secret in the patch of a Secret is not printed.
func TestPatchOfASecret(t *testing.T) {
	c := diff.Change{
		Kind:       diff.Changed,
		Collection: snapshot.Collection{Identity: entry.Identity{GroupVersionResource: input.Secrets.GroupVersionResource}},
		Patch: []byte(
			`{"data":{"a":"c2VjcmV0","b":null},"stringData":"c2VjcmV0","metadata":{"annotations":{"x":"c2VjcmV0"},"labels":{"l":"1"}}}`),
	}
	got, err := patchOf(c)
	want := map[string]any{
		"data": map[string]any{"a": hidden, "b": nil}, "stringData": hidden,
		"metadata": map[string]any{"annotations": map[string]any{"x": hidden}, "labels": map[string]any{"l": "1"}},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%s, %v", d, err)
	}
	c.Collection.Identity.Resource = "configmaps"
	if got, err := patchOf(c); err != nil || got.(map[string]any)["stringData"] != "c2VjcmV0" {
		t.Errorf("a config map's: %v, %v", got, err)
	}
}

// The passphrase is asked for on the terminal: twice for a new one, and only if a snapshot needs it.
func TestPassphraseOnATerminal(t *testing.T) {
	t.Setenv(input.PassphraseVariable, "")
	var answers, asked []string
	s := command.IO{AskSecret: func(prompt string) (string, error) {
		asked = append(asked, prompt)
		if len(answers) == 0 {
			return "", errors.New("end of file")
		}
		text := answers[0]
		answers = answers[1:]
		return text, nil
	}}
	answers = []string{"one", "two"}
	if _, err := (&recipientFlags{passphrase: true}).read(s); command.ExitCode(err) != command.UsedWrongly ||
		!strings.Contains(err.Error(), "differ") {
		t.Errorf("got %v", err)
	}
	answers = []string{"one", "one"}
	if r, err := (&recipientFlags{passphrase: true}).read(s); err != nil || len(r) != 1 || len(asked) != 4 {
		t.Errorf("%v, %v, %q", r, err, asked)
	}
	if _, err := (&recipientFlags{passphrase: true}).read(s); err == nil ||
		!strings.Contains(err.Error(), "could not be read") {
		t.Errorf("got %v", err)
	}
	asked = nil
	id := &input.PassphraseIdentity{Ask: func(prompt string) (string, error) { return input.Passphrase(s, prompt) }}
	if _, err := id.Unwrap([]*age.Stanza{{Type: "X25519"}}); !errors.Is(err, age.ErrIncorrectIdentity) || len(asked) > 0 {
		t.Errorf("%v, %q", err, asked)
	}
}

// A key is unwrapped once for each file: every try costs as much as a passphrase is to.
func TestPassphraseIsTriedOnce(t *testing.T) {
	recipient, err := age.NewScryptRecipient("right")
	if err != nil {
		t.Fatal(err)
	}
	recipient.SetWorkFactor(10)
	key := []byte("0123456789abcdef")
	stanzas, err := recipient.Wrap(key)
	if err != nil {
		t.Fatal(err)
	}
	id := &input.PassphraseIdentity{Ask: func(string) (string, error) { return "right", nil }}
	for range 2 {
		if got, err := id.Unwrap(stanzas); !bytes.Equal(got, key) || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		id.Fits, id.Ask = "", func(string) (string, error) { return "", errors.New("asked again") }
	}
	stanzas[0].Body[0] ^= 1
	if got, err := id.Unwrap(stanzas); err == nil {
		t.Errorf("another wrapping is taken for the same: %q", got)
	}
}

// A passphrase that fits is asked for once, however often a command opens what it has sealed; another one is asked for
// too.
func TestPassphraseIsAskedForOnce(t *testing.T) {
	t.Setenv(input.PassphraseVariable, "")
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		recipient, err := age.NewScryptRecipient(name)
		if err != nil {
			t.Fatal(err)
		}
		recipient.SetWorkFactor(10)
		writeSealed(t, filepath.Join(dir, name), recipient)
	}
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for _, tc := range []struct {
		args []string
		asks []string // what is answered
	}{
		{[]string{"snapshot", "restore", one, "--store", filepath.Join(dir, "a.db")}, []string{"one"}},
		{[]string{"diff", one, one}, []string{"one"}},
		{[]string{"diff", one, two}, []string{"one", "two"}},
	} {
		asks := tc.asks
		var out, errs bytes.Buffer
		s := command.IO{Out: &out, Err: &errs, Now: time.Now, AskSecret: func(string) (string, error) {
			if len(asks) == 0 {
				return "", errors.New("asked once too often")
			}
			text := asks[0]
			asks = asks[1:]
			return text, nil
		}}
		if code := Run(context.Background(), tc.args, s); code != command.OK || len(asks) > 0 {
			t.Errorf("%q: %d %q, %d not asked for", tc.args, code, errs.String(), len(asks))
		}
	}
}

func TestEverythingOfAServer(t *testing.T) {
	var o cluster.Offers
	for _, gvr := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "events"}, {Version: "v1", Resource: "nodes"},
		{Version: "v1", Resource: "bindings"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1beta1", Resource: "deployments"},
		{Group: "events.k8s.io", Version: "v1", Resource: "events"},
	} {
		o.All = append(o.All, input.Resource{GroupVersionResource: gvr, ResourceInfo: entry.ResourceInfo{Namespaced: gvr.Resource != "nodes"}})
	}
	o.Unwatchable = map[schema.GroupVersionResource]bool{{Version: "v1", Resource: "bindings"}: true}
	if got := input.Names(o.Everything(false), input.Resource.Full); got != "pods.v1., nodes.v1., deployments.v1.apps" {
		t.Error(got)
	}
	if got := input.Names(o.Everything(true), input.Resource.Full); got != "pods.v1., deployments.v1.apps" {
		t.Error(got)
	}
}

// What is done at once shows no progress.
func TestQuickDiffShowsNothing(t *testing.T) {
	t.Setenv("TERM", "xterm")
	path := filepath.Join(t.TempDir(), "s.larder")
	writeSnapshot(t, path, snapshot.Header{})
	var out, errs bytes.Buffer
	s := command.IO{Out: &out, Err: &errs, ErrIsTerminal: true, Now: time.Now}
	if code := Run(context.Background(), []string{"diff", path, path}, s); code != command.OK || out.Len() > 0 ||
		errs.Len() > 0 {
		t.Errorf("%d %q %q", code, out.String(), errs.String())
	}
}

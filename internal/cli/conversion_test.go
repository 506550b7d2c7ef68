package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestConversionFails checks a sync of a custom resource whose conversion webhook fails. Other resources are not
// affected. Reads of the resource fail before its first list; later reads return the stored objects. Once the webhook
// works, the resource is mirrored (argoproj/argo-cd#25305, #20828).
func TestConversionFails(t *testing.T) {
	server := clitest.StartWithWidgets(t)
	if _, err := server.Create(clitest.Definitions, clitest.WidgetDefinition()); err != nil {
		t.Fatal(err)
	}
	clitest.CreatePod(t, server, "a", "x", nil)
	store := filepath.Join(t.TempDir(), "s.db")
	fail := func() (mend func()) {
		return server.InjectFault(fakeapi.Fault{Resource: "widgets", Status: 500, Reason: "InternalError"})
	}
	get := func(resource string) (int, string) {
		code, out, errs := runs(t.Context(), "get", resource, "-A", "--from", store)
		return code, out + errs
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				_, widgets := get("widgets")
				t.Fatalf("%s: %s", what, widgets)
			}
		}
	}
	mend := fail()
	syncing(t, store, server.Config().Host, []string{"--all"}, func() {
		until("the pod is not mirrored", func() bool { _, out := get("pods"); return strings.Contains(out, "x ") })
		if code, out := get("widgets"); code == command.OK {
			t.Errorf("get widgets before its first list: exit code 0: %s", out)
		}
		mend()
		until("widgets are not mirrored", func() bool { code, _ := get("widgets"); return code == command.OK })
	})
	mend = fail()
	defer mend()
	syncing(t, store, server.Config().Host, []string{"--all"}, func() {
		clitest.CreatePod(t, server, "a", "y", nil)
		until("the new pod is not mirrored", func() bool { _, out := get("pods"); return strings.Contains(out, "y ") })
		if code, out := get("widgets"); code != command.OK {
			t.Errorf("get widgets of the store: %s", out)
		}
	})
}

func syncing(t *testing.T, store, host string, args []string, fn func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan string, 1)
	go func() {
		_, _, errs := runs(ctx, append([]string{"sync", "--store", store, "--server", host}, args...)...)
		said <- errs
	}()
	defer func() { // the sync must be stopped even if fn fails the test
		cancel()
		if errs := <-said; t.Failed() {
			t.Log(errs)
		}
	}()
	fn()
}

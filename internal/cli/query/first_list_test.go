package query

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/source"
)

// listing is a sync whose first list is complete after a given number of status requests.
type listing struct {
	source.Holder
	calls, until int
	err          string
}

func (l *listing) Status(context.Context) (source.Status, error) {
	l.calls++
	return source.Status{Collections: []source.Collection{
		clitest.Stored(clitest.Pods, func(c *source.Collection) {
			c.Complete = l.calls > l.until
			c.Live = &source.Live{Source: "none", Error: l.err}
		}),
		clitest.Stored(clitest.Deployments, func(c *source.Collection) {
			c.Complete, c.Live = false,
				&source.Live{Source: "none"}
		}),
	}}, nil
}

func TestWaitsForTheFirstList(t *testing.T) {
	for name, tc := range map[string]struct {
		sync    *listing
		targets []target
		calls   int
		says    string
	}{
		"it comes": {&listing{until: 2}, []target{{resource: "po"}}, 3,
			"note: waiting for the first list of pods\n"},
		"it has come":             {&listing{}, []target{{resource: "pods"}}, 1, ""},
		"something is in its way": {&listing{until: 9, err: "refused"}, []target{{resource: "pods"}}, 1, ""},
		"nobody asks for it":      {&listing{until: 9}, []target{{resource: "nodes"}}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			l, err := source.Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			server := source.NewServer(tc.sync, source.Sync{})
			server.Start(l)
			defer func() { _ = server.Close() }()
			client, _, err := source.Dial(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			var out bytes.Buffer
			status, err := afterFirstList(t.Context(), clitest.IO(&out), client, tc.targets)
			if err != nil || len(status.Collections) != 2 || tc.sync.calls != tc.calls || out.String() != tc.says {
				t.Errorf("%d collections after %d calls, %v: %q", len(status.Collections), tc.sync.calls, err, out.String())
			}
		})
	}
}

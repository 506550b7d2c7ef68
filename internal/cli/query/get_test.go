package query

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

// TestNoteOfColumns checks the note that larder get prints with a table if the columns of the resource are unknown
// (issue 38, E.15).
func TestNoteOfColumns(t *testing.T) {
	for _, tc := range []struct {
		format   string
		resource input.Resource
		want     bool
	}{
		{"", clitest.Widgets, true}, {"wide", clitest.Widgets, true}, {"yaml", clitest.Widgets, false},
		{"", clitest.Pods, false},
	} {
		var out bytes.Buffer
		o := getOptions{print: withOutput(tc.format)}
		o.printAllFreshness(clitest.IO(&out), []answer{{Choice: input.Choice{Resource: tc.resource}}})
		if got := strings.Contains(out.String(), "NAME and AGE"); got != tc.want {
			t.Errorf("-o %q of %s: %q", tc.format, tc.resource, out.String())
		}
	}
}

func TestFreshness(t *testing.T) {
	var out bytes.Buffer
	s := clitest.IO(&out)
	live := func(from string) *source.Live { return &source.Live{Source: from} }
	for _, tc := range []struct {
		change    func(*source.Collection)
		withScope bool
		want      string
	}{
		{func(c *source.Collection) { c.LastContact = clitest.Now.Add(-3 * time.Hour) }, false,
			"pods: from disk, as of 3h ago, resourceVersion 7"},
		{func(c *source.Collection) { c.Namespace, c.ResourceVersion = "a", "" }, true,
			"pods (namespace a): from disk, the server has never been heard, resourceVersion none"},
		{func(c *source.Collection) { c.LastContact, c.Live = clitest.Now, live("live") }, false,
			"pods: live from the running sync, which last heard the server 0s ago, resourceVersion 7"},
		{func(c *source.Collection) { c.Live = live("live") }, false,
			"pods: live from the running sync, the server has never been heard, resourceVersion 7"},
		{func(c *source.Collection) {
			c.TakenAt, c.LastContact = clitest.Now.Add(-time.Hour), clitest.Now.Add(-61*time.Minute)
		}, false,
			"pods: from a snapshot, taken 60m ago, resourceVersion 7"},
		{func(c *source.Collection) { c.TakenAt, c.LastContact = clitest.Now, clitest.Now.Add(-3*time.Hour) }, false,
			"pods: from a snapshot, taken 0s ago, as of 3h ago, resourceVersion 7"},
		{func(c *source.Collection) { c.TakenAt = clitest.Now }, false,
			"pods: from a snapshot, taken 0s ago, resourceVersion 7"},
		{func(c *source.Collection) { c.LastContact, c.Live = clitest.Now, live("disk") }, false,
			"pods: from disk; the running sync is out of contact, as of 0s ago, resourceVersion 7"},
		{func(c *source.Collection) {
			c.LastContact, c.Live = clitest.Now.Add(-40*time.Second), &source.Live{Source: "disk", ListOnly: true}
		}, false, "pods: from the running sync, which lists it and cannot watch it, as of 40s ago, resourceVersion 7"},
		{func(c *source.Collection) { c.LastContact, c.Live, c.Persistent = clitest.Now, live("disk"), false }, false,
			"pods: from the running sync's memory, which is out of contact, as of 0s ago, resourceVersion 7"},
	} {
		if d := cmp.Diff(tc.want, freshness(s, clitest.Pods, clitest.Stored(clitest.Pods, tc.change),
			tc.withScope)); d != "" {
			t.Error(d)
		}
	}
}

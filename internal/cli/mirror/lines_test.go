package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/source"
)

func mirrored(change func(*source.Collection)) []source.Collection {
	return []source.Collection{clitest.Stored(clitest.Pods, func(c *source.Collection) {
		c.LastContact = clitest.Now.Add(-5 * time.Second)
		c.Live = &source.Live{Source: "live", Synced: true, Resumes: 1, BytesReceived: 2048, Relists: map[string]int{}}
		if change != nil {
			change(c)
		}
	})}
}

func TestPlainLogChanges(t *testing.T) {
	var out bytes.Buffer
	p := &plainLog{lines: textLines{&out}}
	lines := func(after time.Duration, change func(*source.Collection)) int {
		out.Reset()
		p.update(clitest.Now.Add(after), mirrored(change))
		return strings.Count(out.String(), "\n")
	}
	grown := func(c *source.Collection) { c.Objects, c.ResourceVersion, c.Live.BytesReceived = 9, "99", 1<<20 }
	broken := func(c *source.Collection) { grown(c); c.Live.Source, c.Live.Error = "disk", "connection\nrefused" }
	for i, step := range []struct {
		after  time.Duration
		change func(*source.Collection)
		want   int
	}{
		{0, nil, 1},
		{time.Second, nil, 0},
		{2 * time.Second, grown, 0},   // no line, because only figures have changed
		{3 * time.Second, broken, 2},  // two lines: the new state and the error
		{4 * time.Second, broken, 0},  // no line, because the state and the error have been written
		{64 * time.Second, broken, 2}, // two lines a minute later: the summary and the error
		{65 * time.Second, nil, 1},
	} {
		if got := lines(step.after, step.change); got != step.want {
			t.Errorf("step %d: %d lines, want %d: %s", i, got, step.want, out.String())
		}
	}
}

// TestPlainLogNotesUnguarded checks that the log has one note for all collections about a server change, such as a
// restored backup, that would not be detected.
func TestPlainLogNotesUnguarded(t *testing.T) {
	var out bytes.Buffer
	p := &plainLog{lines: textLines{&out}}
	for i := range 10 {
		var all []source.Collection
		for n := range 59 {
			all = append(all, mirrored(func(c *source.Collection) {
				c.Resource = fmt.Sprint("r", n)
				if i > 0 && n > i { // each step affects one more collection
					c.Live.Unguarded = []string{"another cluster on the same address: Forbidden: unknown"}
				}
			})...)
		}
		p.update(clitest.Now.Add(time.Duration(min(i, 3))*time.Second), all)
		p.update(clitest.Now.Add(time.Duration(min(i, 3))*time.Second), all)
	}
	if got := out.String(); strings.Count(got, "would not be noticed") != 1 || !strings.Contains(got,
		"note: another cluster on the same address would not be noticed of 57 of 59 resources: r2, r3, r4, r5, r6, 52 more "+
			"(Forbidden: unknown)\n") {
		t.Error(got)
	}
}

// TestPlainLogOffline checks that the log shows the new state at the first error, before the next summary is due.
func TestPlainLogOffline(t *testing.T) {
	var out bytes.Buffer
	p := &plainLog{lines: textLines{&out}}
	p.update(clitest.Now, mirrored(func(c *source.Collection) { c.Live.Source = "disk" }))
	p.update(clitest.Now.Add(time.Second), mirrored(func(c *source.Collection) {
		c.Live.Source, c.Live.Error = "disk", "connection refused"
	}))
	if got := out.String(); !strings.Contains(got, "pods: connecting, ") || !strings.Contains(got, "pods: offline, ") {
		t.Error(got)
	}
}

func TestPlainLine(t *testing.T) {
	c := mirrored(func(c *source.Collection) {
		c.Namespace = "a"
		c.Live.Relists = map[string]int{"Expired": 2, "AheadOfServer": 1}
		c.Live.Error = "connection\n refused"
	})[0]
	want := `2026-01-02T03:04:05Z error of pods (namespace a): connection refused
2026-01-02T03:04:05Z pods (namespace a): live, 3 objects, RV 7, age 5s, resumes 1, ` +
		"relists 3 (AheadOfServer, Expired), received 2.0 KiB\n"
	var out bytes.Buffer
	(&plainLog{lines: textLines{&out}}).update(clitest.Now, []source.Collection{c})
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

// TestUnansweredTextIsStable checks that no lines are written while the server does not respond, although the
// collections retry in turn and their own errors keep changing.
func TestUnansweredTextIsStable(t *testing.T) {
	refused := func(port int) error {
		return &url.Error{Op: "Get", URL: "https://127.0.0.1:6443/api/v1/namespaces/kube-system", Err: &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port},
			Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443},
			Err:  syscall.ECONNRESET,
		}}
	}
	var out bytes.Buffer
	p := &plainLog{lines: textLines{&out}}
	for i, err := range []error{
		fmt.Errorf("verify the server of /v1, Kind=Pod: %w", refused(1)),
		fmt.Errorf("wait to connect for /v1, Kind=Pod: verify the server of apps/v1, Kind=Deployment: %w", refused(2)),
		fmt.Errorf("verify the server of /v1, Kind=Pod: %w", refused(3)),
	} {
		p.update(clitest.Now.Add(time.Duration(i)*time.Second), mirrored(func(c *source.Collection) {
			c.Live.Error, c.Live.Trouble = err.Error(), unansweredText(err)
		}))
	}
	want := "error of pods: the API server does not answer: read tcp 127.0.0.1:6443: connection reset by peer\n"
	if strings.Count(out.String(), "\n") != 2 || !strings.Contains(out.String(), want) {
		t.Errorf("got %s", out.String())
	}
	if got := unansweredText(errors.New("forbidden")); got != "" {
		t.Errorf("got %q", got)
	}
}

func many() (all []source.Collection) {
	for i := range 60 {
		all = append(all, clitest.Stored(clitest.Pods, func(c *source.Collection) {
			c.Namespace, c.LastContact = fmt.Sprintf("n%02d", i), clitest.Now
			c.Live = &source.Live{Source: "live", Synced: true}
			switch {
			case i < 2:
				c.Live.Source, c.Live.Error = "disk", "connection refused"
			case i >= 10:
				c.Live.Source, c.Live.Error, c.Live.Forbidden = "none", "forbidden in "+c.Namespace, "kubectl auth can-i"
			}
		}))
	}
	return all
}

func away() []source.Collection {
	all := many()
	for _, c := range all[2:10] {
		c.Live.Source, c.Live.Error = "disk", "connection refused"
	}
	return all
}

// TestLogOfManyCollections checks the log of a sync of many collections (issue 37): one line a minute while nothing
// changes, one line for an error of several collections, and one note for all forbidden collections.
func TestLogOfManyCollections(t *testing.T) {
	var out bytes.Buffer
	p := &plainLog{lines: textLines{&out}}
	said := func(after time.Duration, all []source.Collection) string {
		out.Reset()
		now := clitest.Now.Add(after)
		p.update(now, all)
		return strings.ReplaceAll(out.String(), now.Format(time.RFC3339)+" ", "")
	}
	const (
		summary = "60 resources: 50 forbidden, 8 live, 2 offline, 180 objects, age 0s, resumes 0, relists 0, received 0 B\n"
		failed  = "error of pods (namespace n00), pods (namespace n01): connection refused\n"
		note    = "note: the API server forbids 50 of 60 resources: pods (namespace n10), pods (namespace n11), " +
			"pods (namespace n12), pods (namespace n13), pods (namespace n14), 45 more; they are not mirrored until it allows " +
			"list and watch, and their stored objects stay readable; kubectl auth can-i --list shows the rights\n"
	)
	allowed := many()
	allowed[59].Live = &source.Live{Source: "live", Synced: true}
	for i, step := range []struct {
		after time.Duration
		all   []source.Collection
		want  string
	}{
		{0, many(), failed + summary},
		{time.Second, many(), note},
		{2 * time.Second, many(), ""},
		{3 * time.Second, allowed, "pods (namespace n59): live, 3 objects, RV 7, age 3s, resumes 0, relists 0, received 0 B\n"},
		{4 * time.Second, allowed, ""},
		{5 * time.Second, many(), ""}, // the collections are forbidden again, which is not noted twice
		{60 * time.Second, many(), failed + strings.Replace(summary, "age 0s", "age 60s", 1)},
		{61 * time.Second, away(), "60 resources: 50 forbidden, 10 offline, 180 objects, age 61s, resumes 0, relists 0, received 0 B\n"},
	} {
		if d := cmp.Diff(step.want, said(step.after, step.all)); d != "" {
			t.Errorf("step %d: %s", i, d)
		}
	}
}

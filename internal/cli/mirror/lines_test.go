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

func TestPlainLogSaysWhatChanges(t *testing.T) {
	var out bytes.Buffer
	p := &plainLog{say: sayText(&out)}
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
		{2 * time.Second, grown, 0}, // figures alone are not news
		{3 * time.Second, broken, 1},
		{4 * time.Second, broken, 0},
		{64 * time.Second, broken, 1}, // but are told each minute
		{65 * time.Second, nil, 1},
	} {
		if got := lines(step.after, step.change); got != step.want {
			t.Errorf("step %d: %d lines, want %d: %s", i, got, step.want, out.String())
		}
	}
}

func TestPlainLine(t *testing.T) {
	c := mirrored(func(c *source.Collection) {
		c.Namespace = "a"
		c.Live.Relists = map[string]int{"Expired": 2, "AheadOfServer": 1}
		c.Live.Error = "connection\n refused"
	})[0]
	want := "2026-01-02T03:04:05Z pods (namespace a): live, 3 objects, RV 7, age 5s, resumes 1, " +
		"relists 3 (AheadOfServer, Expired), received 2.0 KiB, error: connection refused"
	if d := cmp.Diff(want, plainLine(clitest.Now, c)); d != "" {
		t.Error(d)
	}
}

// TestTroubleIsStable: of several resources without a server one tries, and the others wait for it, in turns. No line
// is written for that.
func TestTroubleIsStable(t *testing.T) {
	refused := func(port int) error {
		return &url.Error{Op: "Get", URL: "https://127.0.0.1:6443/api/v1/namespaces/kube-system", Err: &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port},
			Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443},
			Err:  syscall.ECONNRESET,
		}}
	}
	var out bytes.Buffer
	p := &plainLog{say: sayText(&out)}
	for i, err := range []error{
		fmt.Errorf("verify the server of /v1, Kind=Pod: %w", refused(1)),
		fmt.Errorf("wait to connect for /v1, Kind=Pod: verify the server of apps/v1, Kind=Deployment: %w", refused(2)),
		fmt.Errorf("verify the server of /v1, Kind=Pod: %w", refused(3)),
	} {
		p.update(clitest.Now.Add(time.Duration(i)*time.Second), mirrored(func(c *source.Collection) {
			c.Live.Error, c.Live.Trouble = err.Error(), troubleOf(err)
		}))
	}
	if want :=
		", error: the API server does not answer: read tcp 127.0.0.1:6443: connection reset by peer\n"; strings.Count(
		out.String(), "\n") != 1 || !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %s", out.String())
	}
	if got := troubleOf(errors.New("forbidden")); got != "" {
		t.Errorf("got %q", got)
	}
}

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// condition is what a link is like for a while. The zero value carries everything at once.
type condition struct {
	name  string
	lasts time.Duration
	// thin: it carries thinRate in each direction.
	thin bool
	// latency, more or less by jitter, is added in each direction.
	latency, jitter time.Duration
	// slowClose is how much later the end of a connection gets through.
	slowClose time.Duration
	// mode is what the network does besides; resets is how often it resets every connection, if it does.
	mode   mode
	resets time.Duration
}

// thinLink is a network with a toxiproxy behind it, which does what takes time: it delays and limits. What breaks
// connections is the network's part, since a toxic reset ends an open connection in order, and a toxic time-out closes
// it in the end.
//
//	client ── network ── toxiproxy ── API server
type thinLink struct {
	*network
	proxy *toxiproxy.Proxy
}

// thinRate is 56 kbit/s, in kB/s. It is the same all the time: a toxic that limits panics if its rate grows under it,
// but can be switched off and on, by its toxicity.
const thinRate = 7

func newThinLink(t *testing.T, target string) *thinLink {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics log to a logger of their own
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &thinLink{proxy: toxiproxy.NewProxy(server, "link", "127.0.0.1:0", target)}
	if err := l.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.proxy.Stop)
	// All of them are there from the start, and only change what they do: to add or remove one rewires the open
	// connections, and may lose bytes of them.
	for _, direction := range []string{"upstream", "downstream"} {
		for _, kind := range []string{"bandwidth", "latency", "slow_close"} {
			toxic := fmt.Sprintf(`{"name":"%s %s","type":%[2]q,"stream":%[1]q,"toxicity":0,"attributes":{}}`, direction, kind)
			if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.network = newNetwork(t, l.proxy.Listen)
	return l
}

// become makes the link like that, for what is open too.
func (l *thinLink) become(t *testing.T, c condition) {
	t.Helper()
	changed := make(chan error, 1)
	go func() { changed <- l.shape(c) }()
	select {
	case err := <-changed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("toxiproxy does not come to %q", c.name)
	}
	if err := l.set(c.mode); err != nil {
		t.Fatal(err)
	}
}

// shape tells the toxics. Each change waits for every connection to take part.
func (l *thinLink) shape(c condition) error {
	thin := 0
	if c.thin {
		thin = 1
	}
	for _, direction := range []string{"upstream", "downstream"} {
		for kind, change := range map[string]string{
			"bandwidth": fmt.Sprintf(`{"toxicity":%d,"attributes":{"rate":%d}}`, thin, thinRate),
			"latency": fmt.Sprintf(`{"toxicity":1,"attributes":{"latency":%d,"jitter":%d}}`, c.latency.Milliseconds(),
				c.jitter.Milliseconds()),
			"slow_close": fmt.Sprintf(`{"toxicity":1,"attributes":{"delay":%d}}`, c.slowClose.Milliseconds()),
		} {
			if _, err := l.proxy.Toxics.UpdateToxicJson(direction+" "+kind, strings.NewReader(change)); err != nil {
				return fmt.Errorf("toxic %s %s: %w", direction, kind, err)
			}
		}
	}
	return nil
}

// reset resets every connection, once.
func (l *thinLink) reset(t *testing.T) {
	t.Helper()
	for _, m := range []mode{resetting, passing} {
		if err := l.set(m); err != nil {
			t.Fatal(err)
		}
	}
}

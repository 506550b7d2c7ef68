package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// condition is the state of a network link for some time. The zero value forwards everything at once.
type condition struct {
	name  string
	lasts time.Duration
	thin  bool
	// latency is the delay in each direction, and varies by up to jitter.
	latency, jitter time.Duration
	// slowClose is the delay before the closing of a connection is forwarded.
	slowClose time.Duration
	// mode is the behaviour of the proxy in front of the link. resets is the interval at which connections are reset, or
	// 0.
	mode   mode
	resets time.Duration
}

// thinLink is a slow network link: a TCP proxy of the tests (network) with toxiproxy behind it. toxiproxy delays bytes
// and limits their rate. network breaks connections, because toxiproxy closes connections in order.
//
//	client ── network ── toxiproxy ── API server
type thinLink struct {
	*network
	proxy *toxiproxy.Proxy
}

// thinRate is 56 kbit/s, in kB/s. It is constant, because a bandwidth toxic of toxiproxy panics if its rate grows
// during use. The toxic's toxicity switches the toxic off and on.
const thinRate = 7

func newThinLink(t *testing.T, target string) *thinLink {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics use a global logger
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &thinLink{proxy: toxiproxy.NewProxy(server, "link", "127.0.0.1:0", target)}
	if err := l.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.proxy.Stop)
	// All toxics exist from the start, and later only their attributes change. Adding or removing a toxic rewires open
	// connections, and may lose bytes.
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

func (l *thinLink) apply(t *testing.T, c condition) {
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

// shape configures toxiproxy's toxics for a condition. Each change waits for every connection.
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

func (l *thinLink) reset(t *testing.T) {
	t.Helper()
	for _, m := range []mode{resetting, passing} {
		if err := l.set(m); err != nil {
			t.Fatal(err)
		}
	}
}

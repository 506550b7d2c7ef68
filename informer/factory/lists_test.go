package factory

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestLists: the options about lists reach the informers of each factory; the typed one reads the server's version by itself, the others with
// Options.RESTClient.
func TestLists(t *testing.T) {
	const watched, cached, paged = "watch", "0", ""
	for _, fl := range flavors {
		for _, tt := range []struct {
			name, version string
			o             Options
			restClient    bool
			want          string
		}{
			{name: "by default", version: "v1.34.0", restClient: true, want: paged},
			{name: "old server", version: "v1.33.0", restClient: true, want: cached},
			{name: "old server, unknown", version: "v1.33.0", want: map[bool]string{true: cached, false: paged}[fl.name == "typed"]},
			{name: "by watch", version: "v1.34.0", o: useWatchList(Options{}), restClient: true, want: watched},
		} {
			t.Run(fl.name+", "+tt.name, func(t *testing.T) {
				s, c := startServer(t, fakeapi.Options{})
				s.SetVersion(tt.version)
				must(t, s.Load(pods, pod("a", "1", "x")))
				o := inMemory()
				o.Informer.UseWatchList = tt.o.Informer.UseWatchList
				if tt.restClient {
					o.RESTClient = c.typed.Discovery().RESTClient()
				}
				f := fl.ours(t, c, o)
				reg, stop := f.start(t, pods, &recorder{})
				defer stop()
				f.waitSynced(t, reg)
				var got []string
				for _, r := range s.Log() {
					switch {
					case r.Resource != pods.Resource:
					case r.Verb == "list":
						got = append(got, r.Query.Get("resourceVersion"))
					case r.Query.Get("sendInitialEvents") == "true":
						got = append(got, watched)
					}
				}
				if !slices.Equal(got, []string{tt.want}) {
					t.Errorf("listed by %q, want %q", got, tt.want)
				}
			})
		}
	}
}

func useWatchList(o Options) Options {
	o.Informer.UseWatchList = true
	return o
}

// TestFakesDoNotStream: client-go's fakes can not send initial events, and say so.
func TestFakesDoNotStream(t *testing.T) {
	for _, fl := range flavors {
		t.Run(fl.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := fakeClients(t, pod("a", "1", "x"), pod("b", "1", "x"))
				f := fl.ours(t, c, useWatchList(inMemory()))
				if got := followFake(t, f, c.writer(t.Context(), fl.name)); len(got) < 6 {
					t.Errorf("only %q", got)
				}
			})
		})
	}
}

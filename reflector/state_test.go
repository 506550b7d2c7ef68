package reflector

import "testing"

func TestNext(t *testing.T) {
	due := func(r Reason) outcome { return outcome{Kind: mustList, Reason: r} }
	later := func(r Reason) outcome { return outcome{Kind: mustList, Reason: r, Wait: true} }
	is := func(k outcomeKind) outcome { return outcome{Kind: k} }
	tests := []struct {
		from position
		o    outcome
		want position
	}{
		{position{Restore, ""}, is(resumable), position{Verify, ""}},
		{position{Restore, ""}, due(ReasonCold), position{Relist, ReasonCold}},
		{position{Restore, ReasonCodec}, is(resumable), position{Relist, ReasonCodec}},

		{position{Verify, ""}, is(level), position{Watch, ""}},
		{position{Verify, ""}, is(behind), position{Drain, ""}},
		{position{Verify, ""}, due(ReasonAhead), position{Relist, ReasonAhead}},
		{position{Verify, ""}, is(failed), position{Backoff, ""}},
		{position{Verify, ""}, is(denied), position{Degraded, ""}},

		{position{Drain, ""}, is(drained), position{Watch, ""}},
		{position{Drain, ""}, is(ended), position{Verify, ""}},
		{position{Drain, ""}, is(failed), position{Backoff, ""}},
		{position{Drain, ""}, due(ReasonRewound), position{Relist, ReasonRewound}},

		{position{Watch, ""}, is(ended), position{Verify, ""}},
		{position{Watch, ""}, is(behind), position{Drain, ""}},
		{position{Watch, ""}, is(failed), position{Backoff, ""}},
		{position{Watch, ""}, is(denied), position{Degraded, ""}},
		{position{Watch, ""}, outcome{Kind: denied, Reason: ReasonListOnly}, position{Degraded, ReasonListOnly}},
		{position{Watch, ""}, is(refused), position{Refused, ""}},
		{position{Drain, ""}, is(refused), position{Refused, ""}},
		{position{Refused, ""}, is(failed), position{Backoff, ""}},
		{position{Refused, ""}, is(denied), position{Degraded, ""}},
		{position{Refused, ""}, due(ReasonExpired), position{Relist, ReasonExpired}},
		{position{Refused, ""}, later(ReasonExpired), position{Backoff, ReasonExpired}},
		{position{Watch, ""}, due(ReasonExpired), position{Relist, ReasonExpired}},
		{position{Watch, ""}, later(ReasonExpired), position{Backoff, ReasonExpired}},

		{position{Relist, ReasonExpired}, is(listed), position{Watch, ""}},
		{position{Relist, ReasonExpired}, is(failed), position{Backoff, ReasonExpired}},
		{position{Relist, ReasonExpired}, is(denied), position{Degraded, ReasonExpired}},
		{position{Relist, ReasonExpired}, later(ReasonExpired), position{Backoff, ReasonExpired}},

		{position{Backoff, ""}, is(waited), position{Verify, ""}},
		{position{Backoff, ReasonExpired}, is(waited), position{Relist, ReasonExpired}},
		{position{Degraded, ""}, is(waited), position{Verify, ""}},
		{position{Degraded, ReasonCold}, is(waited), position{Relist, ReasonCold}},
		// A list that is requested during a back-off does not shorten the back-off.
		{position{Backoff, ""}, due(ReasonCodec), position{Backoff, ReasonCodec}},
		{position{Degraded, ReasonExpired}, due(ReasonCodec), position{Degraded, ReasonCodec}},

		// An outcome that does not belong to the state leaves the position unchanged.
		{position{Watch, ""}, is(listed), position{Watch, ""}},
		{position{Verify, ""}, is(refused), position{Verify, ""}},
		{position{Refused, ""}, is(waited), position{Refused, ""}},
		{position{Backoff, ReasonCold}, is(ended), position{Backoff, ReasonCold}},
		{position{Stopped, ""}, due(ReasonCodec), position{Stopped, ReasonCodec}},
	}
	for _, tt := range tests {
		if got := next(tt.from, tt.o); got != tt.want {
			t.Errorf("next(%v, %v) = %v, want %v", tt.from, tt.o, got, tt.want)
		}
	}
	for _, s := range []State{Restore, Verify, Drain, Watch, Relist, Refused, Backoff, Degraded} {
		if got := next(position{State: s}, outcome{Kind: stop}); got.State != Stopped {
			t.Errorf("stop in %s leads to %s", s, got.State)
		}
	}
}

func TestTransportErrorsNeverList(t *testing.T) {
	for _, s := range []State{Verify, Drain, Watch, Refused} {
		for _, k := range []outcomeKind{failed, denied, ended} {
			p := next(position{State: s}, outcome{Kind: k})
			for range 3 {
				if p.State == Relist || p.Reason != "" {
					t.Fatalf("%s, %s led to %v", s, k, p)
				}
				p = next(p, outcome{Kind: waited})
			}
		}
	}
}

func TestStronger(t *testing.T) {
	tests := []struct{ due, also, want Reason }{
		{"", ReasonExpired, ReasonExpired},
		{ReasonExpired, "", ReasonExpired},
		{ReasonExpired, ReasonStore, ReasonExpired},
		{ReasonExpired, ReasonAhead, ReasonAhead},
		{ReasonRewound, ReasonCluster, ReasonRewound},
		{ReasonExpired, ReasonCodec, ReasonCodec},
		{ReasonCluster, ReasonCodec, ReasonCluster},
		{ReasonCold, ReasonCluster, ReasonCold},
	}
	for _, tt := range tests {
		if got := stronger(tt.due, tt.also); got != tt.want {
			t.Errorf("stronger(%q, %q) = %q, want %q", tt.due, tt.also, got, tt.want)
		}
	}
}

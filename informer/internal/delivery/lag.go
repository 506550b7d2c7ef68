package delivery

import (
	"time"

	"k8s.io/utils/clock"
)

// lagInterval is the minimum time between two log lines about a handler that is behind.
const lagInterval = 10 * time.Minute

// lag decides when to log that a handler is behind: when an event is queued at or above the threshold, then every
// lagInterval while that lasts, and once when everything has been delivered. Replays and resyncs cause no line: they
// are queued page by page, so they do not show that the handler is slow.
type lag struct {
	warned time.Time
	behind bool // behind is true if the last log line reported that the handler is behind
}

type lagReport struct {
	what            lagEvent
	pending, merged int
}

type lagEvent int

const (
	lagNothing lagEvent = iota
	lagBehind
	lagCaughtUp
)

func (g *lag) queued(n *Call, q *pending, c clock.PassiveClock) lagReport {
	if q.len() < q.threshold || n.Firsts > 0 {
		return lagReport{}
	}
	now := c.Now()
	if !g.warned.IsZero() && now.Sub(g.warned) < lagInterval {
		return lagReport{}
	}
	g.warned, g.behind = now, true
	return lagReport{lagBehind, q.len(), q.merged}
}

func (g *lag) caughtUp(q *pending) lagReport {
	if !g.behind {
		return lagReport{}
	}
	g.behind = false
	return lagReport{what: lagCaughtUp, merged: q.merged}
}

// log writes a line. The caller holds no lock: see Lines.
func (l *Listener) log(r lagReport) {
	switch r.what {
	case lagBehind:
		l.Logger.Info("Event handler is behind; updates of one object are told together until it has caught up",
			"handler", l.Name, "informer", l.upstream.Name(), "pending", r.pending, "merged", r.merged)
	case lagCaughtUp:
		l.Logger.Info("Event handler has caught up", "handler", l.Name, "informer", l.upstream.Name(), "merged", r.merged)
	}
}

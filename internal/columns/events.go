package columns

import (
	"strings"
	"time"
)

// events is the table of Events of v1 and of events.k8s.io/v1.
var events = kind{
	names: []string{
		"Last Seen", "Type", "Reason", "Object", "+Subobject", "+Source", "Message", "+First Seen", "+Count", "+Name",
	},
	cells: func(o object, now time.Time) []any {
		first := o.firstTime([]string{"firstTimestamp"}, []string{"deprecatedFirstTimestamp"}, []string{"eventTime"})
		last := o.firstTime([]string{"lastTimestamp"}, []string{"deprecatedLastTimestamp"})
		if last.IsZero() {
			last = first
		}
		count := max(o.number("count"), o.number("deprecatedCount"))
		if series := o.child("series"); series != nil {
			last, count = series.time("lastObservedTime"), series.number("count")
		} else if count == 0 {
			count = 1
		}
		about := o.either("involvedObject", "regarding")
		target := strings.ToLower(about.text("kind"))
		if name := about.text("name"); name != "" {
			target += "/" + name
		}
		return []any{
			Age(now, last), o.text("type"), o.text("reason"), target, about.text("fieldPath"), eventSource(o),
			strings.TrimSpace(or(o.text("message"), o.text("note"))), Age(now, first), count, o.name(),
		}
	},
}

func eventSource(o object) string {
	from := o.either("source", "deprecatedSource")
	component := or(or(from.text("component"), o.text("reportingComponent")), o.text("reportingController"))
	if host := or(from.text("host"), o.text("reportingInstance")); host != "" {
		return component + ", " + host
	}
	return component
}

func (o object) either(a, b string) object {
	if c := o.child(a); c != nil {
		return c
	}
	return o.child(b)
}

func (o object) firstTime(paths ...[]string) time.Time {
	for _, p := range paths {
		if t := o.time(p...); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

package remote

import "time"

// Keep says which snapshots are kept: those that any field asks for.
type Keep struct {
	// Last is how many are kept, the newest.
	Last int
	// Hourly, Daily and Weekly are for how many hours, days and weeks (of UTC) the newest of each is kept; hours, days and
	// weeks that have no snapshot do not count.
	Hourly, Daily, Weekly int
}

// choose reports for each item, the newest first, whether it is kept.
func (k Keep) choose(items []Item) []bool {
	keeps := make([]bool, len(items))
	for i := range items[:min(max(k.Last, 0), len(items))] {
		keeps[i] = true
	}
	newest(items, keeps, k.Hourly, func(t time.Time) time.Time { return t.Truncate(time.Hour) })
	newest(items, keeps, k.Daily, func(t time.Time) time.Time { return t.Truncate(24 * time.Hour) })
	newest(items, keeps, k.Weekly, func(t time.Time) time.Time { return t.Truncate(7 * 24 * time.Hour) }) // from Monday on
	return keeps
}

// newest keeps the newest of each of so many spans.
func newest(items []Item, keeps []bool, spans int, of func(time.Time) time.Time) {
	var last time.Time
	for i, it := range items {
		if spans <= 0 {
			return
		}
		if span := of(it.Taken); i == 0 || !span.Equal(last) {
			keeps[i], last = true, span
			spans--
		}
	}
}

package remote

import "time"

// Keep is a retention policy for a repository: it keeps each snapshot that any of its fields selects.
type Keep struct {
	Last int
	// Hourly, Daily and Weekly are numbers of hours, days and weeks (in UTC) whose newest snapshot is kept. Hours, days
	// and weeks without a snapshot do not count.
	Hourly, Daily, Weekly int
}

func (k Keep) choose(items []Item) []bool {
	keeps := make([]bool, len(items))
	for i := range items[:min(max(k.Last, 0), len(items))] {
		keeps[i] = true
	}
	newest(items, keeps, k.Hourly, func(t time.Time) time.Time { return t.Truncate(time.Hour) })
	newest(items, keeps, k.Daily, func(t time.Time) time.Time { return t.Truncate(24 * time.Hour) })
	// Weeks begin on Monday, as Truncate counts from the year 1.
	newest(items, keeps, k.Weekly, func(t time.Time) time.Time { return t.Truncate(7 * 24 * time.Hour) })
	return keeps
}

// newest keeps the newest snapshot of each hour, day or week, for as many of these spans. of returns the start of a
// span.
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

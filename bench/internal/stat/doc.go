// Package stat sums up the runs of one measurement: the median, since a run that the machine disturbed must not move it, and
// the spread beside it, since a reader must see that it was.
package stat

package columns

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var resourceClaims = kind{
	names: []string{"Name", "State", "Age"},
	cells: func(o object, now time.Time) []any {
		var states []string
		if o.deleted() {
			states = append(states, "deleted")
		}
		switch {
		case !o.has("status", "allocation") && !o.deleted():
			states = append(states, "pending")
		case o.has("status", "allocation"):
			states = append(states, "allocated")
			if o.size("status", "reservedFor") > 0 {
				states = append(states, "reserved")
			}
		}
		return []any{o.name(), strings.Join(states, ","), o.age(now)}
	},
}

var resourceSlices = kind{
	names: []string{"Name", "Node", "Driver", "Pool", "Age"},
	cells: func(o object, now time.Time) []any {
		s := o.child("spec")
		return []any{o.name(), s.text("nodeName"), s.text("driver"), s.text("pool", "name"), o.age(now)}
	},
}

var deviceTaints = kind{
	names: []string{"Name", "Key", "Value", "Effect", "TimeAdded", "Age"},
	cells: func(o object, now time.Time) []any {
		t, added := o.child("spec", "taint"), ""
		if t.has("timeAdded") {
			added = Age(now, t.time("timeAdded"))
		}
		return []any{o.name(), t.text("key"), t.text("value"), t.text("effect"), added, o.age(now)}
	},
}

var poolStatusRequests = kind{
	names: []string{
		"Name", "Driver", "Total", "Available", "Allocated", "Unavailable", "Errors", "Pools:integer", "Status", "Completed",
	},
	cells: func(o object, now time.Time) []any {
		cells := []any{o.name(), o.text("spec", "driver")}
		status, end := poolStatus(o)
		if !o.has("status") || status == "Failed" {
			cells = append(cells, "-", "-", "-", "-", "-")
		} else {
			cells = append(cells, devices(o)...)
		}
		pools, completed := o.number("status", "poolCount"), none
		if status == "Complete" {
			completed = Age(now, end)
			if sent := o.size("status", "pools"); pools > int64(sent) {
				status = fmt.Sprintf("Complete (%d/%d pools)", sent, pools)
			}
		}
		return append(cells, pools, status, completed)
	},
}

// poolStatus returns the status of a resource pool status request, and the time of its first final condition.
func poolStatus(o object) (status string, end time.Time) {
	for _, c := range o.list("status", "conditions") {
		switch kind := c.text("type"); kind {
		case "Complete", "Failed":
			if c.text("status") == "True" {
				return kind, c.time("lastTransitionTime")
			}
		}
	}
	return "Pending", time.Time{}
}

func devices(o object) []any {
	var sums [4]int64
	errs := 0
	for _, p := range o.list("status", "pools") {
		for i, field := range []string{"totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices"} {
			sums[i] += p.number(field)
		}
		if p.has("validationError") {
			errs++
		}
	}
	var cells []any
	for _, n := range sums {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return append(cells, strconv.Itoa(errs))
}

package columns

import (
	"fmt"
	"strings"
	"time"
)

var autoscalers = kind{
	names: []string{"Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"},
	cells: func(o object, now time.Time) []any {
		target := o.child("spec", "scaleTargetRef")
		return []any{
			o.name(), target.text("kind") + "/" + target.text("name"), metrics(o), o.scalar(unset, "spec", "minReplicas"),
			o.number("spec", "maxReplicas"), o.number("status", "currentReplicas"), o.age(now),
		}
	},
}

// metrics are what is measured and what is aimed at: the first two, and how many more there are.
func metrics(o object) string {
	const most = 2
	now := o.list("status", "currentMetrics")
	var all []string
	for i, m := range o.list("spec", "metrics") {
		var current object
		if i < len(now) {
			current = now[i]
		}
		all = append(all, metric(m, current))
	}
	if cpu := "targetCPUUtilizationPercentage"; o.has("spec", cpu) { // v1
		all = append(all, fmt.Sprintf("cpu: %s/%d%%", percent(o.child("status"), "currentCPUUtilizationPercentage", unknown),
			o.number("spec", cpu)))
	}
	switch {
	case len(all) == 0:
		return none
	case len(all) > most:
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// metric compares a metric of the spec with its like in the status.
func metric(spec, status object) string {
	kind := spec.text("type")
	if kind == "" {
		return "<unknown type>"
	}
	field := strings.ToLower(kind[:1]) + kind[1:]
	target, current := spec.child(field, "target"), status.child(field, "current")
	average := target.has("averageValue")
	switch kind {
	case "Resource", "ContainerResource":
		name := spec.text(field, "name") + ": "
		if average {
			return name + measured(current, "averageValue") + "/" + target.quantity("averageValue")
		}
		return name + percent(current, "averageUtilization", unknown) + "/" + percent(target, "averageUtilization", "<auto>")
	case "Pods":
		return measured(current, "averageValue") + "/" + target.quantity("averageValue")
	case "Object", "External":
		if average {
			return measured(current, "averageValue") + "/" + target.quantity("averageValue") + " (avg)"
		}
		return measured(current, "value") + "/" + target.quantity("value")
	}
	return "<unknown type>"
}

func measured(current object, field string) string {
	if !current.has(field) {
		return unknown
	}
	return current.quantity(field)
}

func percent(o object, field, missing string) string {
	if !o.has(field) {
		return missing
	}
	return fmt.Sprintf("%d%%", o.number(field))
}

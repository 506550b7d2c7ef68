package columns

import (
	"fmt"
	"strings"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
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

// metrics returns an autoscaler's first two targets with their current values, and the number of its other targets.
func metrics(o object) string {
	const most = 2
	specs, statuses := o.list("spec", "metrics"), o.list("status", "currentMetrics")
	if len(specs) == 0 {
		specs, statuses = oldMetrics(o)
	}
	var all []string
	for i, m := range specs {
		var current object
		if i < len(statuses) {
			current = statuses[i]
		}
		all = append(all, metric(m, current))
	}
	switch {
	case len(all) == 0:
		return none
	case len(all) > most:
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// oldMetrics returns the metrics of an autoscaling/v1 object in the form of autoscaling/v2. In v1 the CPU metric is in
// fields of its own and the other metrics are in annotations. v1 does not store the position of the CPU metric, so
// oldMetrics returns it first, as in most objects.
func oldMetrics(o object) (specs, statuses []object) {
	statuses = annotatedMetrics(o, "current-metrics", "current")
	if cpu := o.at("spec", "targetCPUUtilizationPercentage"); cpu != nil {
		specs = []object{cpuMetric("target", cpu)}
		if len(statuses) == 0 {
			statuses = []object{cpuMetric("current", o.at("status", "currentCPUUtilizationPercentage"))}
		}
	}
	return append(specs, annotatedMetrics(o, "metrics", "target")...), statuses
}

func cpuMetric(values string, utilization any) object {
	v := map[string]any{"averageUtilization": utilization}
	return object{"type": "Resource", "resource": map[string]any{"name": "cpu", values: v}}
}

// annotatedMetrics returns the autoscaler metrics in an annotation, in the form of autoscaling/v2: target.averageValue
// replaces fields such as targetAverageValue.
func annotatedMetrics(o object, name, values string) (all []object) {
	text, _ := o.annotation("autoscaling.alpha.kubernetes.io/" + name)
	var parsed []any
	if text == "" || utiljson.Unmarshal([]byte(text), &parsed) != nil {
		return nil
	}
	for _, m := range (object{"list": parsed}).list("list") {
		for _, field := range m {
			source, _ := field.(map[string]any)
			v := map[string]any{}
			for _, value := range []string{"AverageUtilization", "AverageValue", "Value"} {
				newer := strings.ToLower(value[:1]) + value[1:]
				if x := source[values+value]; x != nil {
					v[newer] = x
				} else if x := source[newer]; x != nil {
					// A metric of type Object already has averageValue under this name.
					v[newer] = x
				}
			}
			if source != nil {
				source[values] = v
			}
		}
		all = append(all, m)
	}
	return all
}

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

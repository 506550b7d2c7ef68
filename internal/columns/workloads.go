package columns

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var deployments = kind{
	names: []string{"Name", "Ready", "Up-to-date", "Available", "Age", "+Containers", "+Images", "+Selector"},
	cells: func(o object, now time.Time) []any {
		names, images := containers(o.child("spec", "template", "spec"))
		selector := ""
		if s, err := metav1.LabelSelectorAsSelector(o.labelSelector("spec", "selector")); err != nil {
			selector = "<invalid>"
		} else {
			selector = s.String()
		}
		return []any{
			o.name(), readyOf(o), o.number("status", "updatedReplicas"), o.number("status", "availableReplicas"), o.age(now),
			names, images, selector,
		}
	},
}

var statefulSets = kind{
	names: []string{"Name", "Ready", "Age", "+Containers", "+Images"},
	cells: func(o object, now time.Time) []any {
		names, images := containers(o.child("spec", "template", "spec"))
		return []any{o.name(), readyOf(o), o.age(now), names, images}
	},
}

func readyOf(o object) string {
	return fmt.Sprintf("%d/%d", o.number("status", "readyReplicas"), o.number("spec", "replicas"))
}

var replicaNames = []string{
	"Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", "+Containers", "+Images", "+Selector",
}

var replicaSets = kind{
	names: replicaNames,
	cells: func(o object, now time.Time) []any { return replicas(o, now, o.selector("spec", "selector")) },
}

var replicationControllers = kind{
	names: replicaNames,
	cells: func(o object, now time.Time) []any {
		return replicas(o, now, formatLabels(o.labels("spec", "selector")))
	},
}

func replicas(o object, now time.Time, selector string) []any {
	names, images := containers(o.child("spec", "template", "spec"))
	return []any{
		o.name(), o.number("spec", "replicas"), o.number("status", "replicas"), o.number("status", "readyReplicas"),
		o.age(now), names, images, selector,
	}
}

var daemonSets = kind{
	names: []string{
		"Name", "Desired:integer", "Current:integer", "Ready:integer", "Up-to-date:integer", "Available:integer",
		"Node Selector", "Age", "+Containers", "+Images", "+Selector",
	},
	cells: func(o object, now time.Time) []any {
		names, images := containers(o.child("spec", "template", "spec"))
		s := o.child("status")
		return []any{
			o.name(), s.number("desiredNumberScheduled"), s.number("currentNumberScheduled"), s.number("numberReady"),
			s.number("updatedNumberScheduled"), s.number("numberAvailable"),
			formatLabels(o.labels("spec", "template", "spec", "nodeSelector")),
			o.age(now), names, images, o.selector("spec", "selector"),
		}
	},
}

var jobs = kind{
	names: []string{"Name", "Status", "Completions", "Duration", "Age", "+Containers", "+Images", "+Selector"},
	cells: func(o object, now time.Time) []any {
		names, images := containers(o.child("spec", "template", "spec"))
		return []any{o.name(), jobStatus(o), completions(o), jobDuration(o, now), o.age(now), names, images,
			o.selector("spec", "selector")}
	},
}

func jobStatus(o object) string {
	for _, end := range []string{"Complete", "Failed"} {
		if o.isTrue(end) {
			return end
		}
	}
	if o.deleted() {
		return "Terminating"
	}
	for _, state := range []string{"Suspended", "FailureTarget", "SuccessCriteriaMet"} {
		if o.isTrue(state) {
			return state
		}
	}
	return "Running"
}

func completions(o object) string {
	done, parallel := o.number("status", "succeeded"), o.number("spec", "parallelism")
	switch {
	case o.has("spec", "completions"):
		return fmt.Sprintf("%d/%d", done, o.number("spec", "completions"))
	case parallel > 1:
		return fmt.Sprintf("%d/1 of %d", done, parallel)
	}
	return fmt.Sprintf("%d/1", done)
}

func jobDuration(o object, now time.Time) string {
	start, end := o.time("status", "startTime"), o.time("status", "completionTime")
	switch {
	case start.IsZero():
		return ""
	case end.IsZero():
		end = now
	}
	return elapsed(start, end)
}

var cronJobs = kind{
	names: []string{
		"Name", "Schedule", "Timezone", "Suspend:boolean", "Active:integer", "Last Schedule", "Age", "+Containers",
		"+Images", "+Selector",
	},
	cells: func(o object, now time.Time) []any {
		names, images := containers(o.child("spec", "jobTemplate", "spec", "template", "spec"))
		last := none
		if o.has("status", "lastScheduleTime") {
			last = Age(now, o.time("status", "lastScheduleTime"))
		}
		return []any{
			o.name(), o.text("spec", "schedule"), o.scalar(none, "spec", "timeZone"), yesNo(o, "spec", "suspend"),
			int64(o.size("status", "active")),
			last, o.age(now), names, images, o.selector("spec", "jobTemplate", "spec", "selector"),
		}
	},
}

func yesNo(o object, path ...string) string {
	switch {
	case !o.has(path...):
		return unset
	case o.flag(path...):
		return "True"
	}
	return "False"
}

var revisions = kind{
	names: []string{"Name", "Controller", "Revision", "Age"},
	cells: func(o object, now time.Time) []any {
		controller := none
		for _, owner := range o.list("metadata", "ownerReferences") {
			if owner.flag("controller") {
				gk := schema.FromAPIVersionAndKind(owner.text("apiVersion"), owner.text("kind")).GroupKind()
				controller = strings.ToLower(gk.String()) + "/" + owner.text("name")
				break
			}
		}
		return []any{o.name(), controller, o.number("revision"), o.age(now)}
	},
}

var disruptionBudgets = kind{
	names: []string{"Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"},
	cells: func(o object, now time.Time) []any {
		return []any{
			o.name(), o.scalar("N/A", "spec", "minAvailable"), o.scalar("N/A", "spec", "maxUnavailable"),
			o.number("status", "disruptionsAllowed"), o.age(now),
		}
	},
}

package columns

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var flowSchemas = kind{
	names:    []string{"Name", "PriorityLevel", "MatchingPrecedence", "DistinguisherMethod", "Age", "MissingPL"},
	sortedBy: ".spec.matchingPrecedence",
	cells: func(o object, now time.Time) []any {
		method := none
		if m := o.child("spec", "distinguisherMethod"); m != nil {
			method = m.text("type")
		}
		missing := "?"
		if c := o.condition("Dangling"); c != nil {
			missing = c.text("status")
		}
		return []any{
			o.name(), o.text("spec", "priorityLevelConfiguration", "name"), o.number("spec", "matchingPrecedence"), method,
			o.age(now), missing,
		}
	},
}

var priorityLevels = kind{
	names: []string{"Name", "Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit", "Age"},
	cells: func(o object, now time.Time) []any {
		shares, queues, hand, limit := any(none), any(none), any(none), any(none)
		if l := o.child("spec", "limited"); l != nil {
			shares = l.number("nominalConcurrencyShares")
			if q := l.child("limitResponse", "queuing"); q != nil {
				queues, hand, limit = q.number("queues"), q.number("handSize"), q.number("queueLengthLimit")
			}
		}
		return []any{o.name(), o.text("spec", "type"), shares, queues, hand, limit, o.age(now)}
	},
}

var storageVersions = kind{
	names: []string{"Name", "CommonEncodingVersion", "StorageVersions", "Age"},
	cells: func(o object, now time.Time) []any {
		var all []string
		for _, v := range o.list("status", "storageVersions") {
			all = append(all, v.text("apiServerID")+"="+v.text("encodingVersion"))
		}
		return []any{o.name(), o.scalar(unset, "status", "commonEncodingVersion"), few(all, shown, unset), o.age(now)}
	},
}

var storageMigrations = kind{
	names: []string{"Name:string", "Resource", "Status"},
	cells: func(o object, _ time.Time) []any {
		status := "Unknown"
		for _, c := range o.list("status", "conditions") {
			switch kind := c.text("type"); kind {
			case "Running", "Failed", "Succeeded":
				if c.text("status") == "True" {
					status = kind
				}
			}
		}
		r := o.child("spec", "resource")
		gr := schema.GroupResource{Group: r.text("group"), Resource: r.text("resource")}
		return []any{o.name(), gr.String(), status}
	},
}

var leaseCandidates = kind{
	names: []string{"Name", "LeaseName", "BinaryVersion", "EmulationVersion", "Age"},
	cells: func(o object, now time.Time) []any {
		s := o.child("spec")
		return []any{o.name(), s.text("leaseName"), s.text("binaryVersion"), s.text("emulationVersion"), o.age(now)}
	},
}

var componentStatuses = kind{
	names: []string{"Name", "Status", "Message", "Error"},
	cells: func(o object, _ time.Time) []any {
		for _, c := range o.list("conditions") {
			if c.text("type") != "Healthy" {
				continue
			}
			status := "Unhealthy"
			if c.text("status") == "True" {
				status = "Healthy"
			}
			return []any{o.name(), status, c.text("message"), c.text("error")}
		}
		return []any{o.name(), "Unknown", "", ""}
	},
}

var podGroups = kind{
	names: []string{"Name", "Policy", "Workload", "Status", "Age"},
	cells: func(o object, now time.Time) []any {
		policy, status := "Basic", "Pending"
		if o.has("spec", "schedulingPolicy", "gang") {
			policy = "Gang"
		}
		if c := o.condition("PodGroupScheduled"); c != nil {
			status = "Unschedulable"
			if c.text("status") == "True" {
				status = "Scheduled"
			}
		}
		if c := o.condition("DisruptionTarget"); c != nil {
			status = c.text("reason")
		}
		workload := none
		if ref := o.child("spec", "podGroupTemplateRef"); ref != nil {
			workload = ref.text("workload", "workloadName")
		}
		return []any{o.name(), policy, workload, status, o.age(now)}
	},
}

package columns

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

var configMaps = kind{
	names: []string{"Name", "Data", "Age"},
	cells: func(o object, now time.Time) []any {
		return []any{o.name(), int64(o.size("data") + o.size("binaryData")), o.age(now)}
	},
}

var secrets = kind{
	names: []string{"Name", "Type", "Data", "Age"},
	cells: func(o object, now time.Time) []any {
		return []any{o.name(), o.text("type"), int64(o.size("data")), o.age(now)}
	},
}

var namespaces = kind{
	names: []string{"Name", "Status", "Age"},
	cells: func(o object, now time.Time) []any { return []any{o.name(), o.text("status", "phase"), o.age(now)} },
}

var nodes = kind{
	names: []string{
		"Name", "Status", "Roles", "Age", "Version", "+Internal-IP", "+External-IP", "+OS-Image", "+Kernel-Version",
		"+Container-Runtime",
	},
	cells: func(o object, now time.Time) []any {
		info := o.child("status", "nodeInfo")
		kernel := or(info.text("kernelVersion"), unknown)
		if arch := info.text("architecture"); arch != "" {
			kernel += " (" + arch + ")"
		}
		return []any{
			o.name(), nodeStatus(o), or(strings.Join(nodeRoles(o), ","), none), o.age(now), info.text("kubeletVersion"),
			nodeAddress(o, "InternalIP"), nodeAddress(o, "ExternalIP"),
			or(info.text("osImage"), unknown), kernel, or(info.text("containerRuntimeVersion"), unknown),
		}
	},
}

func nodeStatus(o object) string {
	status := "Unknown"
	for _, c := range o.list("status", "conditions") {
		switch { // the last of several Ready conditions counts
		case c.text("type") != "Ready":
		case c.text("status") == "True":
			status = "Ready"
		default:
			status = "NotReady"
		}
	}
	if o.flag("spec", "unschedulable") {
		status += ",SchedulingDisabled"
	}
	return status
}

// nodeRoles returns the roles of a node. Labels of two forms name a role.
func nodeRoles(o object) []string {
	roles := map[string]bool{}
	for label, value := range o.labels("metadata", "labels") {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok {
			roles[role] = true
		} else if label == "kubernetes.io/role" {
			roles[value] = true
		}
	}
	delete(roles, "")
	return slices.Sorted(maps.Keys(roles))
}

func nodeAddress(o object, kind string) string {
	for _, a := range o.list("status", "addresses") {
		if a.text("type") == kind {
			return a.text("address")
		}
	}
	return none
}

var quotas = kind{
	names: []string{"Name", "Request", "Limit", "Age"},
	cells: func(o object, now time.Time) []any {
		var requests, limits []string
		for _, name := range slices.Sorted(maps.Keys(o.child("status", "hard"))) {
			cell := fmt.Sprintf("%s: %s/%s", name, o.quantity("status", "used", name), o.quantity("status", "hard", name))
			if strings.HasPrefix(name, "limits.") {
				limits = append(limits, cell)
			} else {
				requests = append(requests, cell)
			}
		}
		return []any{o.name(), strings.Join(requests, ", "), strings.Join(limits, ", "), o.age(now)}
	},
}

var leases = kind{
	names: []string{"Name", "Holder", "Age"},
	cells: func(o object, now time.Time) []any {
		return []any{o.name(), o.text("spec", "holderIdentity"), o.age(now)}
	},
}

var priorityClasses = kind{
	names: []string{"Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"},
	cells: func(o object, now time.Time) []any {
		return []any{o.name(), o.number("value"), o.flag("globalDefault"), o.age(now), o.text("preemptionPolicy")}
	},
}

var runtimeClasses = kind{
	names: []string{"Name", "Handler", "Age"},
	cells: func(o object, now time.Time) []any { return []any{o.name(), o.text("handler"), o.age(now)} },
}

var apiServices = kind{
	names: []string{"Name", "Service", "Available", "Age"},
	cells: func(o object, now time.Time) []any {
		service, available := "Local", "Unknown"
		if s := o.child("spec", "service"); s != nil {
			service = s.text("namespace") + "/" + s.text("name")
		}
		if c := o.condition("Available"); c != nil {
			available = c.text("status")
			if reason := c.text("reason"); available != "True" && reason != "" {
				available += " (" + reason + ")"
			}
		}
		return []any{o.name(), service, available, o.age(now)}
	},
}

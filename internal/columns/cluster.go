package columns

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
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

var roleBindings = kind{
	names: []string{"Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts"},
	cells: func(o object, now time.Time) []any {
		subjects := map[string][]string{}
		for _, s := range o.list("subjects") {
			name := s.text("name")
			if s.text("kind") == "ServiceAccount" {
				name = s.text("namespace") + "/" + name
			}
			subjects[s.text("kind")] = append(subjects[s.text("kind")], name)
		}
		join := func(kind string) string { return strings.Join(subjects[kind], ", ") }
		role := o.text("roleRef", "kind") + "/" + o.text("roleRef", "name")
		return []any{o.name(), role, o.age(now), join("User"), join("Group"), join("ServiceAccount")}
	},
}

var signingRequests = kind{
	names: []string{"Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"},
	cells: func(o object, now time.Time) []any {
		requested := none
		if o.has("spec", "expirationSeconds") {
			requested = duration.HumanDuration(time.Duration(o.number("spec", "expirationSeconds")) * time.Second)
		}
		return []any{
			o.name(), o.age(now), or(o.text("spec", "signerName"), none), o.text("spec", "username"), requested,
			requestCondition(o),
		}
	},
}

func requestCondition(o object) string {
	condition := "Pending"
	switch {
	case o.condition("Denied") != nil:
		condition = "Denied"
	case o.condition("Approved") != nil:
		condition = "Approved"
	}
	if o.condition("Failed") != nil {
		condition += ",Failed"
	}
	if o.size("status", "certificate") > 0 {
		condition += ",Issued"
	}
	return condition
}

var trustBundles = kind{
	names: []string{"Name", "SignerName"},
	cells: func(o object, _ time.Time) []any { return []any{o.name(), or(o.text("spec", "signerName"), none)} },
}

var podCertificates = kind{
	names: []string{
		"Name", "PodName", "ServiceAccountName", "NodeName", "SignerName", "State", "UnverifiedUserAnnotations",
	},
	cells: func(o object, _ time.Time) []any {
		state := "Pending"
		for _, c := range o.list("status", "conditions") {
			switch kind := c.text("type"); kind {
			case "Issued", "Denied", "Failed":
				state = kind
			}
		}
		s := o.child("spec")
		return []any{
			o.name(), s.text("podName"), s.text("serviceAccountName"), s.text("nodeName"), s.text("signerName"), state,
			formatLabels(s.labels("unverifiedUserAnnotations")),
		}
	},
}

var webhooks = kind{
	names: []string{"Name", "Webhooks:integer", "Age"},
	cells: func(o object, now time.Time) []any { return []any{o.name(), int64(o.size("webhooks")), o.age(now)} },
}

var validatingPolicies = admissionPolicies("Validations", "validations")

var mutatingPolicies = admissionPolicies("Mutations", "mutations")

// admissionPolicies returns the table of an admission policy resource. column counts the items of the list field in the
// object's spec.
func admissionPolicies(column, field string) kind {
	return kind{
		names: []string{"Name", column + ":integer", "ParamKind", "Age"},
		cells: func(o object, now time.Time) []any {
			param := unset
			if k := o.child("spec", "paramKind"); k != nil {
				param = k.text("apiVersion") + "/" + k.text("kind")
			}
			return []any{o.name(), int64(o.size("spec", field)), param, o.age(now)}
		},
	}
}

var policyBindings = kind{
	names: []string{"Name", "PolicyName", "ParamRef", "Age"},
	cells: func(o object, now time.Time) []any {
		param := unset
		if ref := o.child("spec", "paramRef"); ref.text("name") != "" {
			param = or(ref.text("namespace"), "*") + "/" + ref.text("name")
		} else if ref.has("selector") {
			param = o.labelSelector("spec", "paramRef", "selector").String()
		}
		return []any{o.name(), o.text("spec", "policyName"), param, o.age(now)}
	},
}

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

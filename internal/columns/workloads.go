package columns

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
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

var pods = kind{
	names: []string{"Name", "Ready", "Status", "Restarts", "Age", "+IP", "+Node", "+Nominated Node", "+Readiness Gates"},
	cells: func(o object, now time.Time) []any {
		s := summarize(o)
		ip := ""
		if ips := o.list("status", "podIPs"); len(ips) > 0 {
			ip = ips[0].text("ip")
		}
		return []any{
			o.name(), fmt.Sprintf("%d/%d", s.ready, s.total), s.status, s.restarts.since(now), o.age(now),
			or(ip, none), or(o.text("spec", "nodeName"), none), or(o.text("status", "nominatedNodeName"), none),
			readinessGates(o),
		}
	},
}

var podTemplates = kind{
	names: []string{"Name", "Containers", "Images", "Pod Labels"},
	cells: func(o object, _ time.Time) []any {
		names, images := containers(o.child("template", "spec"))
		return []any{o.name(), names, images, formatLabels(o.labels("template", "metadata", "labels"))}
	},
}

type podSummary struct {
	ready, total int
	status       string
	restarts     restarts
}

type restarts struct {
	count int64
	last  time.Time
}

func (r *restarts) add(container object) {
	r.count += container.number("restartCount")
	if t := container.time("lastState", "terminated", "finishedAt"); t.After(r.last) {
		r.last = t
	}
}

func (r restarts) since(now time.Time) string {
	if r.count == 0 || r.last.IsZero() {
		return strconv.FormatInt(r.count, 10)
	}
	return fmt.Sprintf("%d (%s ago)", r.count, Age(now, r.last))
}

// summarize returns the values of a pod's row. The status is the first of these that applies: Terminating (or Unknown
// on a lost node), if the pod is being deleted and has not ended; the state of the first unfinished init container; the
// container state with the highest priority; the pod's own reason or phase.
func summarize(pod object) podSummary {
	phase := pod.text("status", "phase")
	s := podSummary{total: pod.size("spec", "containers"), status: or(pod.text("status", "reason"), phase)}
	const gated = "SchedulingGated"
	for _, c := range pod.list("status", "conditions") {
		if c.text("type") == "PodScheduled" && c.text("reason") == gated {
			s.status = gated
		}
	}
	if sidecars, done := s.initialize(pod); done || pod.isTrue("Initialized") {
		s.restarts = sidecars
		s.run(pod)
	}
	switch {
	case !pod.deleted():
	case pod.text("status", "reason") == "NodeLost":
		s.status = "Unknown"
	case phase != "Succeeded" && phase != "Failed":
		s.status = "Terminating"
	}
	return s
}

// initialize adds the init containers to the summary. It returns the restarts of the sidecars (init containers that
// keep running). done is false if an init container has not finished.
func (s *podSummary) initialize(pod object) (sidecars restarts, done bool) {
	var sidecarNames []string
	for _, c := range pod.list("spec", "initContainers") {
		if c.text("restartPolicy") == "Always" {
			sidecarNames = append(sidecarNames, c.text("name"))
			s.total++
		}
	}
	for i, c := range pod.list("status", "initContainerStatuses") {
		s.restarts.add(c)
		sidecar := slices.Contains(sidecarNames, c.text("name"))
		if sidecar {
			sidecars.add(c)
		}
		ended, waiting := c.child("state", "terminated"), c.text("state", "waiting", "reason")
		switch {
		case ended != nil && ended.number("exitCode") == 0:
			continue
		case sidecar && c.flag("started"):
			if c.flag("ready") {
				s.ready++
			}
			continue
		case ended != nil:
			s.status = "Init:" + ending(ended)
		case waiting != "" && waiting != "PodInitializing":
			s.status = "Init:" + waiting
		default:
			s.status = fmt.Sprintf("Init:%d/%d", i, pod.size("spec", "initContainers"))
		}
		return sidecars, false
	}
	return sidecars, true
}

// run adds the containers to the summary. A completed container does not determine the pod's status while other
// containers run or have failed.
func (s *podSummary) run(pod object) {
	const completed = "Completed"
	running, failure := false, ""
	for _, c := range slices.Backward(pod.list("status", "containerStatuses")) {
		s.restarts.add(c)
		ended, waiting := c.child("state", "terminated"), c.text("state", "waiting", "reason")
		switch {
		case waiting != "":
			s.status = waiting
		case ended != nil:
			s.status = ending(ended)
			if ended.number("exitCode") != 0 {
				failure = s.status
			}
		case c.flag("ready") && c.has("state", "running"):
			running = true
			s.ready++
		}
	}
	switch {
	case s.status != completed:
	case running && pod.isTrue("Ready"):
		s.status = "Running"
	case failure != "":
		s.status = failure
	case running:
		s.status = "NotReady"
	}
}

func ending(terminated object) string {
	switch {
	case terminated.text("reason") != "":
		return terminated.text("reason")
	case terminated.number("signal") != 0:
		return fmt.Sprintf("Signal:%d", terminated.number("signal"))
	}
	return fmt.Sprintf("ExitCode:%d", terminated.number("exitCode"))
}

func readinessGates(pod object) string {
	gates := pod.list("spec", "readinessGates")
	if len(gates) == 0 {
		return none
	}
	open := 0
	for _, g := range gates {
		if pod.isTrue(g.text("conditionType")) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(gates))
}

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

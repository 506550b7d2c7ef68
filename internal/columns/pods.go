package columns

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

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

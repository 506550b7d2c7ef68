package adoptions

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var (
	nodes = corev1.SchemeGroupVersion.WithResource("nodes")
	pods  = corev1.SchemeGroupVersion.WithResource("pods")
)

// policy makes the descheduler evict pods that do not tolerate their node's taint.
const policy = `
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: taints
  pluginConfig:
  - name: DefaultEvictor
    args: {namespaceLabelSelector: {matchLabels: {deschedule: "yes"}}}
  - name: RemovePodsViolatingNodeTaints
    args: {}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}`

const (
	taint   = `{"spec":{"taints":[{"key":"full","effect":"NoSchedule"}]}}`
	noTaint = `{"spec":{"taints":null}}`
)

type taints struct {
	*world
	mark int64
	on   map[string]string
	// deleted are pods that were never on a tainted node, so they must not be evicted.
	deleted       []string
	free, tainted string
}

func newTaints(w *world) scenario {
	s := &taints{world: w, on: map[string]string{}, free: w.namespace + "-a", tainted: w.namespace + "-b"}
	for _, node := range []string{s.free, s.tainted} {
		w.create(nodes, `
apiVersion: v1
kind: Node
metadata: {name: %s}`, node)
		w.patch(nodes, node, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "status")
	}
	w.patch(nodes, s.free, noTaint) // the API server gave the new node a taint, because the node was not ready
	w.patch(nodes, s.tainted, taint)
	var err error
	if s.mark, err = server.Mark(); err != nil {
		w.t.Fatal(err)
	}
	once := []string{"--policy-config-file", w.file("policy.yaml", policy), "--secure-port=0"}
	args := append([]string{"--descheduling-interval=500ms"}, once...)
	return scenario{args: args, once: once, change: s.change, checkWork: s.checkWork}
}

// change creates pods on both nodes. In odd rounds, in which the program is down, change first moves the taint to the
// other node: a running program might see a pod before the pod's node.
func (s *taints) change(round int) {
	if round%2 == 1 {
		s.swap()
	}
	s.put(fmt.Sprintf("evicted-%d", round), s.tainted, "[]")
	s.put(fmt.Sprintf("tolerant-%d", round), s.tainted, "[{key: full, operator: Exists}]")
	s.put(fmt.Sprintf("stays-%d", round), s.free, "[]")
	s.put(fmt.Sprintf("deleted-%d", round), s.free, "[]")
}

// swap moves the taint to the other node. It first deletes some of the pods on that node, so that only the remaining
// ones must be evicted. It also removes all pods from the node that loses the taint. Pods created there later must
// stay, even if the program wrongly remembers the taint.
func (s *taints) swap() {
	for name, node := range s.on {
		deleted := strings.HasPrefix(name, "deleted")
		if node != s.tainted && !deleted {
			continue
		}
		s.delete(pods, name)
		delete(s.on, name)
		if node == s.free {
			s.deleted = append(s.deleted, name)
		}
	}
	s.free, s.tainted = s.tainted, s.free
	s.patch(nodes, s.free, noTaint)
	s.patch(nodes, s.tainted, taint)
}

func (s *taints) put(name, node, tolerations string) {
	s.on[name] = node
	s.create(pods, `
apiVersion: v1
kind: Pod
metadata:
  name: %s
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: 6b1e9c52-6c1f-4c45-9d2e-35a0d8a3b1a1}]
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  tolerations: %s
  containers: [{name: c, image: pause}]`, name, node, tolerations)
}

// checkWork checks that pods without a toleration are gone from the tainted node, that all other pods remain, and that
// no deleted pod was evicted.
func (s *taints) checkWork() error {
	var errs []error
	for name, node := range s.on {
		pod, err := s.get(pods, name)
		evicted := node == s.tainted && !strings.HasPrefix(name, "tolerant")
		switch {
		case err != nil:
			return err
		case evicted && pod != nil:
			errs = append(errs, fmt.Errorf("pod %s is still on the tainted node", name))
		case evicted:
			delete(s.on, name)
		case pod == nil:
			s.t.Fatalf("pod %s was evicted from node %s, which has no taint that it does not tolerate", name, node)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	requests, err := server.Requests("", s.mark)
	if err != nil {
		return err
	}
	for _, r := range requests {
		for _, name := range s.deleted {
			if strings.HasSuffix(r.Path, s.namespace+"/pods/"+name+"/eviction") {
				s.t.Fatalf("somebody has tried to evict pod %s, which was deleted before the node was tainted: %s", name, r)
			}
		}
	}
	return nil
}

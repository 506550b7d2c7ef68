package informer_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/reflector"
)

// TestTransformOfTheIdentity checks that a transform cannot change an object's namespace, name, UID and
// resourceVersion: restarts, comparisons and audits cause no list, and a delete during a downtime is noticed.
// cert-manager/cert-manager#5966, odigos-io/odigos#4573.
func TestTransformOfTheIdentity(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"name":              func(p *corev1.Pod) { p.Name = "renamed-" + p.Name },
		"one name for all":  func(p *corev1.Pod) { p.Name = "same" },
		"namespace":         func(p *corev1.Pod) { p.Namespace = "other" },
		"no name":           func(p *corev1.Pod) { p.Name, p.Namespace = "", "" },
		"UID":               func(p *corev1.Pod) { p.UID = "another" },
		"no UID":            func(p *corev1.Pod) { p.UID = "" },
		"resourceVersion":   func(p *corev1.Pod) { p.ResourceVersion = "7" },
		"no version":        func(p *corev1.Pod) { p.ResourceVersion = "" },
		"nothing of it all": func(p *corev1.Pod) { p.Name, p.Namespace, p.UID, p.ResourceVersion = "", "", "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.TransformVersion = "1"
				h := &recorder{}
				start := func() {
					i := r.open()
					err := i.SetTransform(func(obj any) (any, error) {
						p := obj.(*corev1.Pod).DeepCopy()
						p.Annotations = nil
						change(p)
						return p, nil
					})
					if err != nil {
						t.Fatal(err)
					}
					r.run(h)
				}
				for _, key := range []string{"a/1", "a/2", "a/3"} {
					r.srv.write(key, "x")
				}
				start()
				r.srv.write("a/2", "y")
				time.Sleep(time.Second)
				equal(t, "handler", h.take(), []string{"add a/1@101=x initial", "add a/2@102=x initial",
					"add a/3@103=x initial", "update a/2@102=x to a/2@104=y"})
				r.close()

				r.srv.delete("a/1")
				r.srv.write("a/3", "y")
				start()
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "store", r.stored(), r.srv.state())
				if _, exists, err := r.i.GetIndexer().GetByKey("a/2"); err != nil || !exists {
					t.Errorf("GetByKey: %t, %v", exists, err)
				}
				if report := r.audit(); report.Differing > 0 || report.Listed {
					t.Errorf("audit: %+v", report)
				}
				if s := r.i.Status(); !s.Synced || s.Reflector.Lists != 0 || s.Reflector.Relists[reflector.ReasonRewound] != 0 {
					t.Errorf("status: %+v", s.Reflector)
				}
				r.close()
			})
		})
	}
}

package factory

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

// fakeClients returns client-go's fake clients. Each client has its own object tracker, which holds the given pods.
func fakeClients(t *testing.T, all ...*corev1.Pod) clients {
	t.Helper()
	var typed, partial []runtime.Object
	for _, p := range all {
		typed = append(typed, p)
		partial = append(partial, partialPod(p))
	}
	s := metadatafake.NewTestScheme()
	must(t, metav1.AddMetaToScheme(s))
	return clients{
		typed:    fake.NewClientset(typed...),
		dynamic:  dynamicfake.NewSimpleDynamicClient(scheme.Scheme, typed...),
		metadata: metadatafake.NewSimpleMetadataClient(s, partial...),
	}
}

func partialPod(p *corev1.Pod) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta}
}

// podWriter creates, updates and deletes pods through one of the clients, as a controller's unit test does.
type podWriter struct {
	create, update func(*corev1.Pod) error
	remove         func(namespace, name string) error
}

func (c clients) writer(ctx context.Context, flavor string) podWriter {
	switch flavor {
	case "typed":
		of := c.typed.CoreV1().Pods
		return podWriter{
			create: func(p *corev1.Pod) error {
				_, err := of(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
				return err
			},
			update: func(p *corev1.Pod) error {
				_, err := of(p.Namespace).Update(ctx, p, metav1.UpdateOptions{})
				return err
			},
			remove: func(ns, name string) error { return of(ns).Delete(ctx, name, metav1.DeleteOptions{}) },
		}
	case "dynamic":
		of := c.dynamic.Resource(pods).Namespace
		return podWriter{
			create: func(p *corev1.Pod) error {
				_, err := of(p.Namespace).Create(ctx, unstructuredPod(p), metav1.CreateOptions{})
				return err
			},
			update: func(p *corev1.Pod) error {
				_, err := of(p.Namespace).Update(ctx, unstructuredPod(p), metav1.UpdateOptions{})
				return err
			},
			remove: func(ns, name string) error { return of(ns).Delete(ctx, name, metav1.DeleteOptions{}) },
		}
	}
	of := func(ns string) metadatafake.MetadataClient {
		return c.metadata.Resource(pods).Namespace(ns).(metadatafake.MetadataClient)
	}
	return podWriter{
		create: func(p *corev1.Pod) error {
			_, err := of(p.Namespace).CreateFake(partialPod(p), metav1.CreateOptions{})
			return err
		},
		update: func(p *corev1.Pod) error {
			_, err := of(p.Namespace).UpdateFake(partialPod(p), metav1.UpdateOptions{})
			return err
		},
		remove: func(ns, name string) error { return of(ns).Delete(ctx, name, metav1.DeleteOptions{}) },
	}
}

func unstructuredPod(p *corev1.Pod) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		panic(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// TestFakeClients checks that Larder's and client-go's factories give handlers and listers the same.
func TestFakeClients(t *testing.T) {
	for _, fl := range flavors {
		t.Run(fl.name, func(t *testing.T) {
			var lines [][]string
			for _, ours := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					c := fakeClients(t, pod("a", "1", "x"), pod("b", "1", "x"))
					f := fl.stock(c, Options{})
					if ours {
						st := openStore(t, t.TempDir())
						defer closeStore(t, st)
						f = fl.ours(t, c, on(t, st))
					}
					lines = append(lines, followFake(t, f, c.writer(t.Context(), fl.name)))
				})
			}
			equal(t, "ours after client-go's", lines[1], lines[0])
			if len(lines[0]) < 6 {
				t.Errorf("only %q", lines[0])
			}
		})
	}
}

// followFake runs the factory, writes pods, and returns the calls of a handler and the contents of the lister.
func followFake(t *testing.T, f subject, w podWriter) []string {
	t.Helper()
	h := &recorder{}
	reg, stop := f.start(t, pods, h)
	defer stop()
	f.waitSynced(t, reg)
	all := h.take()
	slices.Sort(all) // calls for initial objects arrive in no fixed order
	for _, write := range []func() error{
		func() error { return w.create(pod("c", "1", "x")) },
		func() error { return w.update(pod("c", "1", "y")) },
		func() error { return w.update(pod("a", "1", "y")) },
		func() error { return w.remove("b", "1") },
		func() error { return w.create(pod("b", "1", "z")) },
	} {
		must(t, write())
		synctest.Wait()
		all = append(all, h.take()...)
	}
	return append(all, f.listed(t, pods)...)
}

// TestFakeReceivesNoOtherRequests checks that factories send a fake client only the requests for pods, since unit tests
// compare the fake's requests.
func TestFakeReceivesNoOtherRequests(t *testing.T) {
	for _, fl := range flavors {
		synctest.Test(t, func(t *testing.T) {
			c := fakeClients(t, pod("a", "1", "x"))
			f := fl.ours(t, c, inMemory())
			reg, stop := f.start(t, pods, &recorder{})
			f.waitSynced(t, reg)
			stop()
			recorder := map[string]any{"typed": c.typed, "dynamic": c.dynamic, "metadata": c.metadata}[fl.name]
			actions := recorder.(interface{ Actions() []clienttesting.Action }).Actions()
			for _, a := range actions {
				if a.GetResource() != pods || a.GetVerb() != "list" && a.GetVerb() != "watch" {
					t.Errorf("%s: %s %s", fl.name, a.GetVerb(), a.GetResource())
				}
			}
			if len(actions) < 2 {
				t.Errorf("%s: %v", fl.name, actions)
			}
		})
	}
}

package fakeapi

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bigPod returns a pod of about 3 KB.
func bigPod(i int) *corev1.Pod {
	p := pod("default", fmt.Sprintf("pod-%06d", i), map[string]string{"app": fmt.Sprint(i % 100)})
	for c := range 8 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("c", c), Image: strings.Repeat("image/", 20), Command: []string{strings.Repeat("x", 100), "y"},
		})
	}
	return p
}

func BenchmarkLoad5000(b *testing.B) {
	pods := make([]*corev1.Pod, 5000)
	for i := range pods {
		pods[i] = bigPod(i)
	}
	for b.Loop() {
		s := New(Options{})
		for _, p := range pods {
			if err := s.Load(podsGVR, p); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkCreate5000(b *testing.B) {
	pods := make([]*corev1.Pod, 5000)
	for i := range pods {
		pods[i] = bigPod(i)
	}
	for b.Loop() {
		s := New(Options{})
		for _, p := range pods {
			if _, err := s.Create(podsGVR, p); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkUpdateWatched measures the time until a protobuf watch has received the event of an update.
func BenchmarkUpdateWatched(b *testing.B) {
	s := New(Options{})
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	defer s.Stop()
	p := bigPod(0)
	if err := s.Load(podsGVR, p); err != nil {
		b.Fatal(err)
	}
	t := &testing.T{}
	pods := typed(t, s, contentProtobuf).CoreV1().Pods("")
	w, err := pods.Watch(b.Context(), metav1.ListOptions{ResourceVersion: s.RV()})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range b.N {
			<-w.ResultChan()
		}
	}()
	b.ResetTimer()
	for i := range b.N {
		p.Labels["i"] = fmt.Sprint(i)
		if err := s.update1(p); err != nil {
			b.Fatal(err)
		}
	}
	<-done
}

func (s *Server) update1(p *corev1.Pod) error {
	_, err := s.update(s.kinds[podsGVR], p)
	return err
}

func BenchmarkPagedList(b *testing.B) {
	s := New(Options{})
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	defer s.Stop()
	for i := range 20_000 {
		if err := s.Load(podsGVR, bigPod(i)); err != nil {
			b.Fatal(err)
		}
	}
	pods := typed(&testing.T{}, s, contentProtobuf).CoreV1().Pods("")
	for b.Loop() {
		o := metav1.ListOptions{Limit: 500}
		for {
			list, err := pods.List(b.Context(), o)
			if err != nil {
				b.Fatal(err)
			}
			if o.Continue = list.Continue; o.Continue == "" {
				break
			}
		}
	}
}

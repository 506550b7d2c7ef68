package informer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// otherTypes is the codec of a program with other Go types for the stored objects.
type otherTypes struct{ codec.Codec }

func (c otherTypes) Fingerprint() string { return c.Codec.Fingerprint() + " and a field" }

// TestReasonOfEachAttribute checks that the status names the changed attribute before the list, and counts a list for
// it after the list.
func TestReasonOfEachAttribute(t *testing.T) {
	protobuf, err := codec.For(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	msgpack, err := codec.ForMsgpack(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	says := func(what string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return what, nil }
	}
	for reason, change := range map[reflector.Reason]func(*informer.Options){
		reflector.ReasonCodec:     func(o *informer.Options) { o.Codec = msgpack },
		reflector.ReasonSchema:    func(o *informer.Options) { o.Codec = otherTypes{protobuf} },
		reflector.ReasonTransform: func(o *informer.Options) { o.TransformVersion = "2" },
		reflector.ReasonCluster:   func(o *informer.Options) { o.ClusterID = says("two") },
		reflector.ReasonOpenAPI:   func(o *informer.Options) { o.OpenAPIHash = says("two") },
	} {
		t.Run(string(reason), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.Codec, r.o.TransformVersion, r.o.ClusterID, r.o.OpenAPIHash = protobuf, "1", says("one"), says("one")
				r.srv.write("a/1", "x")
				r.start()
				r.close()
				change(&r.o)
				r.srv.setFail(refuse)
				i := r.start()
				if s := i.Status(); s.Rewriting != reason || s.Objects != 1 {
					t.Errorf("before: %+v", s)
				}
				r.srv.setFail(nil)
				time.Sleep(2 * openAPIJitter)
				synctest.Wait()
				if s := i.Status(); s.Rewriting != "" || s.Reflector.Relists[reason] != 1 || len(s.Reflector.Relists) != 1 ||
					s.Err != nil {
					t.Errorf("after: %+v", s)
				}
				r.close()
			})
		})
	}
}

// TestReasonWithoutResourceVersion checks that each start on a server with incomparable resourceVersions lists for that
// reason, not for a fault of the file.
func TestReasonWithoutResourceVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.start()
		if _, err := informer.Store(i).Apply(t.Context(), entry.Batch{ResourceVersion: "v1.7"}); err != nil {
			t.Fatal(err)
		}
		r.close()
		i = r.start()
		if s := i.Status(); s.Reflector.Relists[reflector.ReasonNotResumable] != 1 || len(s.Reflector.Relists) != 1 ||
			s.Err != nil {
			t.Errorf("%+v", s)
		}
		r.close()
	})
}

// TestReasonOfTheStore checks that the reason for a list distinguishes a damaged file from an interrupted list,
// although the transform has changed too.
func TestReasonOfTheStore(t *testing.T) {
	for mustRelist, reason := range map[string]reflector.Reason{
		store.MustRelistDamaged: reflector.ReasonDamaged,
		"a list was cut short":  reflector.ReasonStore,
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			r.o.TransformVersion = "1"
			r.srv.write("a/1", "x")
			i := r.start()
			if err := informer.Store(i).SetMustRelist(t.Context(), mustRelist); err != nil {
				t.Fatal(err)
			}
			r.close()
			r.o.TransformVersion = "2"
			r.srv.setFail(refuse)
			i = r.start()
			if s := i.Status(); s.Rewriting != reflector.ReasonTransform {
				t.Errorf("before: %+v", s)
			}
			r.srv.setFail(nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if s := i.Status(); s.Rewriting != "" || s.Reflector.Relists[reason] != 1 || len(s.Reflector.Relists) != 1 {
				t.Errorf("after: %+v", s)
			}
			r.close()
		})
	}
}

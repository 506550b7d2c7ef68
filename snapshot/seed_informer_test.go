package snapshot_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/seed"
)

// TestSeedOfAnotherSchema checks that a seed of another schema of the resource is listed again: the store must record
// the seed's schema hash, not the server's (issue 37).
func TestSeedOfAnotherSchema(t *testing.T) {
	t.Parallel()
	s := newSeeds(t)
	hash := func(text string) func(o *informer.Options) {
		return func(o *informer.Options) {
			o.OpenAPIHash = func(context.Context) (string, error) { return text, nil }
		}
	}
	path := s.save("seed.larder", &unstructured.Unstructured{}, hash("hash 1"))
	for now, want := range map[string]reflector.Reason{"hash 1": "", "hash 2": reflector.ReasonOpenAPI} {
		i, stop := s.run(now+".db", &unstructured.Unstructured{}, func(o *informer.Options) {
			hash(now)(o)
			o.Seed = opens(path)
		})
		if st := i.Status(); st.Seed == nil || st.Seed.Err != nil || st.Rewriting != want {
			t.Errorf("%s: seed %+v, rewriting %q, want %q", now, st.Seed, st.Rewriting, want)
		}
		stop()
	}
}

// otherSource is a seed.Source of another type than snapshot.Seed, which changes the seeds.
type otherSource struct {
	seed.Source
	change func(*seed.Seed)
}

func (o otherSource) Seed(ctx context.Context, want seed.Request) (*seed.Seed, error) {
	sd, err := o.Source.Seed(ctx, want)
	if err == nil {
		o.change(sd)
	}
	return sd, err
}

type ownCodec struct{ codec.Codec }

// TestSeedGuardsOfTheInformer checks that an informer lists if a seed cannot be resumed, or if its own codec cannot
// make objects from seeds.
func TestSeedGuardsOfTheInformer(t *testing.T) {
	t.Parallel()
	s := newSeeds(t)
	path := s.save("seed.larder", &unstructured.Unstructured{}, nil)
	closed := 0
	for name, tt := range map[string]struct {
		change  func(o *informer.Options)
		want    string
		example runtime.Object
	}{
		"opaque version": {func(o *informer.Options) {
			o.Seed = otherSource{opens(path), func(sd *seed.Seed) {
				end := sd.Close
				sd.ResourceVersion, sd.Close = "opaque", func() error { closed++; return end() }
			}}
		}, `cannot be resumed from its resourceVersion "opaque"`, &unstructured.Unstructured{}},
		"a codec of its own": {func(o *informer.Options) {
			o.Seed, o.Codec = opens(path), ownCodec{value(codec.For(&corev1.Pod{}))(t)}
		}, "seeds are not converted for Options.Codec", &corev1.Pod{}},
	} {
		t.Run(name, func(t *testing.T) {
			i, stop := s.in(t).run("store.db", tt.example, tt.change)
			defer stop()
			st := i.Status()
			if st.Seed == nil || st.Seed.Err == nil || !strings.Contains(st.Seed.Err.Error(), tt.want) || st.Objects != 60 {
				t.Errorf("%d objects, seed %+v, want %q", st.Objects, st.Seed, tt.want)
			}
		})
	}
	if closed != 1 {
		t.Errorf("the refused seed was closed %d times", closed)
	}
}

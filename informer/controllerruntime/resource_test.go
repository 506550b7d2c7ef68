package controllerruntime

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// TestResource checks the kind and scope that are stored for the command line.
func TestResource(t *testing.T) {
	st, _ := openStore(t, storePath(t))
	w := newWorld(t, startServer(t), NewCache(on(t, st)))
	w.create(cache.Options{})
	_, err := w.GetInformer(w.ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	must(t, err)
	w.run()
	infos, err := st.Collections(t.Context())
	must(t, err)
	if len(infos) != 1 || infos[0].Resource.Kind != "Pod" || infos[0].Resource.Singular != "pod" ||
		!infos[0].Resource.Namespaced {
		t.Errorf("%+v", infos)
	}
}

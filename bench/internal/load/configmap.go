package load

import (
	"encoding/base64"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// configMapBytes is the size of a body.
const configMapBytes = 100 << 10

var configMaps = Kind{
	Name:    "configmaps",
	GVR:     corev1.SchemeGroupVersion.WithResource("configmaps"),
	Example: &corev1.ConfigMap{},
	New:     func(i, revision int) runtime.Object { return newConfigMap(i, revision) },
}

// newConfigMap fills the body with random bytes in base64: compression takes a quarter off it, not more.
func newConfigMap(i, revision int) *corev1.ConfigMap {
	var seed [32]byte
	copy(seed[:], strconv.Itoa(i))
	raw := make([]byte, base64.StdEncoding.DecodedLen(configMapBytes))
	// ChaCha8 never fails.
	_, _ = rand.NewChaCha8(seed).Read(raw)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: objectName("configmaps", i), Namespace: Namespace(i),
			Annotations: map[string]string{RevisionAnnotation: strconv.Itoa(revision)},
		},
		Data: map[string]string{"body": base64.StdEncoding.EncodeToString(raw)},
	}
}

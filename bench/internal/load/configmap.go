package load

import (
	"encoding/base64"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// configMapBytes is the size of a body.
const configMapBytes = 100 << 10

// newConfigMap fills the body with random bytes in base64: compression takes a quarter off it, not more.
func newConfigMap(i, revision int) runtime.Object {
	var seed [32]byte
	copy(seed[:], strconv.Itoa(i))
	raw := make([]byte, base64.StdEncoding.DecodedLen(configMapBytes))
	_, _ = rand.NewChaCha8(seed).Read(raw) // it never fails
	cm := &corev1.ConfigMap{Data: map[string]string{"body": base64.StdEncoding.EncodeToString(raw)}}
	cm.Namespace, cm.Name = Namespace(i), objectName("configmaps", i)
	cm.Annotations = map[string]string{RevisionAnnotation: strconv.Itoa(revision)}
	return cm
}

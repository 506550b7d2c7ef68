package load

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPodSize(t *testing.T) {
	pod := WithManagedFields(newPod(7, 1)).(*corev1.Pod)
	if fields := pod.ManagedFields[0].FieldsV1.GetRawBytes(); !json.Valid(fields) {
		t.Errorf("managedFields are not JSON: %s", fields)
	}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) < 2400 || len(raw) > 3200 {
		t.Errorf("%d bytes of protobuf, want about 2,700", len(raw))
	}
}

func TestRevision(t *testing.T) {
	for _, kind := range Kinds {
		if revision, _ := Revision(kind.New(1, 42)); revision != 42 {
			t.Errorf("%s: revision %d, want 42", kind.Name, revision)
		}
	}
}

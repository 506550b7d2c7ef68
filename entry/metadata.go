package entry

import (
	"encoding/json"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var errNoMetadata = errors.New("it is not a Kubernetes object: it has no metadata")

// ReadMetadata returns the metadata of the object in the JSON text. Some aggregated APIs send metadata that do not fit
// ObjectMeta, such as an empty creationTimestamp (kubernetes#91582). Members that do not fit stay empty, and unfit has
// their names. ReadMetadata fails if text has no metadata at all; the error quotes nothing of text.
func ReadMetadata(text []byte) (m *metav1.PartialObjectMetadata, unfit []string, err error) {
	m = &metav1.PartialObjectMetadata{}
	if json.Unmarshal(text, m) == nil {
		return m, nil, nil
	}
	var members struct {
		APIVersion any                        `json:"apiVersion"`
		Kind       any                        `json:"kind"`
		Metadata   map[string]json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal(text, &members) != nil || members.Metadata == nil {
		return nil, nil, errNoMetadata
	}
	m = &metav1.PartialObjectMetadata{}
	m.APIVersion, _ = members.APIVersion.(string)
	m.Kind, _ = members.Kind.(string)
	for name, value := range members.Metadata {
		var fits metav1.ObjectMeta
		member, err := json.Marshal(map[string]json.RawMessage{name: value})
		if err != nil || json.Unmarshal(member, &fits) != nil || json.Unmarshal(member, &m.ObjectMeta) != nil {
			unfit = append(unfit, name)
		}
	}
	slices.Sort(unfit)
	return m, unfit, nil
}

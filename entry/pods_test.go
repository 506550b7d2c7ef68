package entry

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func pods() Identity {
	return Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

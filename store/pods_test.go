package store

import (
	"github.com/larder-dev/larder/entry"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func pods() entry.Identity {
	return entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

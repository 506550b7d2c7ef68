package storetest

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/store/seal"
)

// Key returns a new key, as a line for Sealing.
func Key(t Failer) string {
	t.Helper()
	line, err := seal.GenerateKey("")
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	return line
}

// Sealing seals Pods under the first of the keys, and can open what was sealed under the others.
func Sealing(t Failer, keys ...string) *seal.Encryption {
	t.Helper()
	parsed, err := seal.ParseKeys([]byte(strings.Join(keys, "\n")))
	if err != nil {
		t.Fatalf("parse keys: %v", err)
	}
	return &seal.Encryption{Keys: parsed, Resources: []schema.GroupResource{Pods.GroupResource()}}
}

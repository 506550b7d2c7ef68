package storetest

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/store/seal"
)

func Key(t Failer) string {
	t.Helper()
	line, err := seal.GenerateKey("")
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	return line
}

// Sealing returns an Encryption that seals Pods under the first key and can decrypt records under the others.
func Sealing(t Failer, keys ...string) *seal.Encryption {
	t.Helper()
	parsed, err := seal.ParseKeys([]byte(strings.Join(keys, "\n")))
	if err != nil {
		t.Fatalf("parse keys: %v", err)
	}
	return &seal.Encryption{Keys: parsed, Resources: []schema.GroupResource{Pods.GroupResource()}}
}

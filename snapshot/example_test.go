package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// The example saves an open store, and restores the snapshot as another node's store. The key seals Secrets in the
// stores. The snapshot includes Secrets because it is encrypted.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "larder-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	line, err := seal.GenerateKey("")
	if err != nil {
		panic(err)
	}
	keys, err := seal.ParseKeys([]byte(line)) // alternatives: seal.KeysFromFile, seal.KeysFromEnv, or a KMS
	if err != nil {
		panic(err)
	}
	options := store.Options{Encryption: &seal.Encryption{Keys: keys}}
	st, err := store.Open(filepath.Join(dir, "larder.db"), options)
	if err != nil {
		panic(err)
	}
	defer st.Close()
	mirror(ctx, st)

	// Alternatives to a new identity are age.ParseIdentities, and age.NewScryptRecipient for a passphrase.
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		panic(err)
	}
	path := filepath.Join(dir, "seed.larder")
	saved, err := snapshot.SaveStore(ctx, st, path,
		snapshot.SaveOptions{Recipients: []age.Recipient{identity.Recipient()}})
	if err != nil {
		panic(err)
	}
	fmt.Println("saved", saved.Objects)

	restored, err := snapshot.Restore(ctx, path, filepath.Join(dir, "node.db"), snapshot.RestoreOptions{
		Identities: []age.Identity{identity}, Import: store.ImportOptions{Store: options},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("restored", restored.Objects, "at resourceVersion", restored.Collections[0].ResourceVersion)
	// Output:
	// saved 1
	// restored 1 at resourceVersion 7
}

// mirror stands for a program's informers: it stores one Secret.
func mirror(ctx context.Context, st *store.Store) {
	id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
		Representation: entry.Unstructured}
	c, err := st.Collection(ctx, id, store.CollectionOptions{Codec: codec.Unstructured()})
	if err != nil {
		panic(err)
	}
	secret := &unstructured.Unstructured{}
	secret.SetAPIVersion("v1")
	secret.SetKind("Secret")
	secret.SetNamespace("shop")
	secret.SetName("till")
	secret.SetUID("u")
	secret.SetResourceVersion("7")
	list, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err != nil {
		panic(err)
	}
	if _, err := list.Page(ctx, []runtime.Object{secret}); err != nil {
		panic(err)
	}
	if _, err := list.Commit(ctx, entry.Batch{ResourceVersion: "7"}); err != nil {
		panic(err)
	}
}

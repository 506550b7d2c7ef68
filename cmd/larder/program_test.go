package main

import (
	"context"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

// program is the script command that writes a store as a Go program with Larder would:
//
//	program FILE                     the config map b/y, of a resource whose discovery data is unknown
//	program FILE defects             the same, with a transform and the mark "must relist"
//	program FILE example             the pods that README's informer stores until its sync, without discovery data
//	program FILE RESOURCE [VERSION]  the metadata that an informer stores until its sync; VERSION is of its transform
//	program FILE RESOURCE lose KEY   deletes an object without a trace in the file
func program(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 4 {
		ts.Fatalf("usage: program FILE [RESOURCE [VERSION | lose KEY]]")
	}
	st, err := store.Open(ts.MkAbs(args[0]), store.Options{})
	ts.Check(err)
	defer func() { ts.Check(st.Close()) }()
	switch {
	case len(args) == 1:
		storeConfigMap(ts, st, "", "")
		return
	case args[1] == "defects":
		storeConfigMap(ts, st, "7", "a list was cut off")
		return
	}
	if args[1] == "example" {
		runExample(ts, st)
		return
	}
	id := entry.Identity{GroupVersionResource: gvr(args[1]), Representation: entry.Metadata}
	o := informer.Options{Store: st, Identity: id}
	switch len(args) {
	case 3:
		o.TransformVersion = args[2]
	case 4:
		c := collection(ts, st, id, &metav1.PartialObjectMetadata{})
		_, err := c.Apply(context.Background(), entry.Batch{Ops: []entry.Op{
			{Type: entry.Delete, Object: cache.DeletedFinalStateUnknown{Key: args[3]}},
		}})
		ts.Check(err)
		ts.Check(c.Close())
		return
	}
	runByMetadata(ts, o)
}

func collection(
	ts *testscript.TestScript, st *store.Store, id entry.Identity, example runtime.Object,
) *store.Collection {
	codec, err := codec.For(example)
	ts.Check(err)
	c, err := st.Collection(context.Background(), id, store.CollectionOptions{Codec: codec})
	ts.Check(err)
	return c
}

func storeConfigMap(ts *testscript.TestScript, st *store.Store, transform, mustRelist string) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "y", UID: "u", ResourceVersion: "5"}}
	ctx := context.Background()
	c := collection(ts, st, entry.Identity{GroupVersionResource: gvr("configmaps"), Representation: entry.Typed}, object)
	list, err := c.BeginReplace(ctx, store.ReplaceOptions{Attributes: entry.Attributes{Transform: transform}})
	ts.Check(err)
	_, err = list.Page(ctx, []runtime.Object{object})
	ts.Check(err)
	_, err = list.Commit(ctx, entry.Batch{ResourceVersion: "5"})
	ts.Check(err)
	if mustRelist != "" {
		ts.Check(c.SetMustRelist(ctx, mustRelist))
	}
	ts.Check(c.Close())
}

func runByMetadata(ts *testscript.TestScript, o informer.Options) {
	config, err := clientcmd.BuildConfigFromFlags("", ts.Getenv("KUBECONFIG"))
	ts.Check(err)
	client, err := metadata.NewForConfig(config)
	ts.Check(err)
	objects := client.Resource(o.Identity.GroupVersionResource)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object,
			error) {
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface,
			error) {
			return objects.Watch(ctx, o)
		},
	}
	inf, err := informer.New(lw, &metav1.PartialObjectMetadata{}, o)
	ts.Check(err)
	runUntilSynced(ts, inf)
}

func runExample(ts *testscript.TestScript, st *store.Store) {
	config, err := clientcmd.BuildConfigFromFlags("", ts.Getenv("KUBECONFIG"))
	ts.Check(err)
	clientset, err := kubernetes.NewForConfig(config)
	ts.Check(err)
	client := clientset.CoreV1().RESTClient()
	id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
	inf, err := informer.New(requests.ListWatch(client, id), &corev1.Pod{}, informer.Options{Store: st, Identity: id})
	ts.Check(err)
	runUntilSynced(ts, inf)
}

func runUntilSynced(ts *testscript.TestScript, inf *informer.Informer) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		inf.RunWithContext(ctx)
	}()
	synced := cache.WaitForCacheSync(ctx.Done(), inf.HasSynced)
	cancel()
	<-ended
	if !synced {
		ts.Fatalf("the program has not synced in %s", patience)
	}
}

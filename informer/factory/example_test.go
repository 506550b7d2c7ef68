package factory_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/factory"
	"github.com/larder-dev/larder/store"
)

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// The informers of the types listed at the end are Larder's; all others are client-go's.
func ExampleNewSharedInformerFactory() {
	client := fake.NewClientset(examplePod())
	st, closeStore := exampleStore()
	defer closeStore()
	ctx, cancel := context.WithCancel(context.Background())

	// The line before was: f := informers.NewSharedInformerFactory(client, 10*time.Minute)
	f, err := factory.NewSharedInformerFactory(client, 10*time.Minute,
		factory.Options{Informer: informer.Options{Store: st}}, &corev1.Pod{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Shutdown()
	defer cancel()

	pods := f.Core().V1().Pods().Lister()
	f.StartWithContext(ctx)
	f.WaitForCacheSync(ctx.Done())
	all, err := pods.List(labels.Everything())
	fmt.Println(len(all), err)
	// Output: 1 <nil>
}

// This is the README's program: Run opens the store, and closes everything in the right order when the function
// returns.
func ExampleNewSharedInformerFactory_run() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := fake.NewClientset(examplePod())
	path, remove := examplePath()
	defer remove()
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		fmt.Println("added")
		cancel()
	}}

	err := informer.Run(ctx, path, store.Options{}, func(ctx context.Context, s *informer.Session) error {
		// also starts offline
		o := factory.Options{Informer: informer.Options{Store: s.Store, SyncPolicy: informer.Disk}}
		f, err := factory.NewSharedInformerFactory(client, 0, o, &corev1.Pod{})
		if err != nil {
			return err
		}
		if _, err := f.Core().V1().Pods().Informer().AddEventHandler(handler); err != nil {
			return err
		}
		s.StartFactories(f)
		f.WaitForCacheSync(ctx.Done())
		<-ctx.Done() // your controller
		return nil
	}) // ends the informers, waits for them, and closes the store
	fmt.Println(err)
	// Output:
	// added
	// <nil>
}

// The factory makes a dynamic informer for each requested resource.
func ExampleNewDynamicSharedInformerFactory() {
	client := dynamicfake.NewSimpleDynamicClient(scheme.Scheme, examplePod())
	st, closeStore := exampleStore()
	defer closeStore()
	ctx, cancel := context.WithCancel(context.Background())

	// The line before was: f := dynamicinformer.NewDynamicSharedInformerFactory(client, 10*time.Minute)
	f := factory.NewDynamicSharedInformerFactory(client, 10*time.Minute,
		factory.Options{Informer: informer.Options{Store: st}})
	defer f.Shutdown()
	defer cancel()

	pods := f.ForResource(podsResource).Lister()
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	all, err := pods.List(labels.Everything())
	fmt.Println(len(all), err)
	// Output: 1 <nil>
}

// The factory makes a metadata informer for each requested resource.
func ExampleNewMetadataSharedInformerFactory() {
	s := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(s); err != nil {
		log.Fatal(err)
	}
	pod := examplePod()
	client := metadatafake.NewSimpleMetadataClient(s,
		&metav1.PartialObjectMetadata{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta})
	st, closeStore := exampleStore()
	defer closeStore()
	ctx, cancel := context.WithCancel(context.Background())

	// The line before was: f := metadatainformer.NewSharedInformerFactory(client, 10*time.Minute)
	f := factory.NewMetadataSharedInformerFactory(client, 10*time.Minute,
		factory.Options{Informer: informer.Options{Store: st}})
	defer f.Shutdown()
	defer cancel()

	pods := f.ForResource(podsResource).Lister()
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	all, err := pods.List(labels.Everything())
	fmt.Println(len(all), err)
	// Output: 1 <nil>
}

// The example prints the source and age of an informer's objects. client-go's factory wraps its informers; informer.Of
// returns Larder's informer in the wrapper, or an error if there is none.
func Example_status() {
	client := fake.NewClientset(examplePod())
	st, closeStore := exampleStore()
	defer closeStore()
	ctx, cancel := context.WithCancel(context.Background())

	f, err := factory.NewSharedInformerFactory(client, 0, factory.Options{Informer: informer.Options{Store: st}},
		&corev1.Pod{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	f.WaitForCacheSync(ctx.Done())

	pods, err := informer.Of(f.Core().V1().Pods().Informer())
	if err != nil {
		log.Fatal(err)
	}
	s := pods.Status()
	fmt.Println(s.Persistent, s.Objects)

	_, err = informer.Of(f.Core().V1().Nodes().Informer()) // the type Node was not given to the factory
	fmt.Println(errors.Is(err, informer.ErrForeign))
	// Output:
	// true 1
	// true
}

func examplePod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web-1"},
	}
}

func examplePath() (path string, remove func()) {
	dir, err := os.MkdirTemp("", "larder-example")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(dir, "larder.db"), func() {
		if err := os.RemoveAll(dir); err != nil {
			log.Fatal(err)
		}
	}
}

// exampleStore opens a store in a new directory. closeStore closes it and deletes the directory.
func exampleStore() (st *store.Store, closeStore func()) {
	path, remove := examplePath()
	st, err := store.Open(path, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return st, func() {
		if err := st.Close(); err != nil {
			log.Fatal(err)
		}
		remove()
	}
}

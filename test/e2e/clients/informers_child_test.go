package clients

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// informersEnv is the environment variable with the configuration of a child process. If it is set, the test binary
// runs client-go's informers.
const informersEnv = "LARDER_E2E_INFORMERS"

// informersConfig is the configuration of a child process. It lacks the feature WatchListClient, which client-go reads
// from the environment.
type informersConfig struct {
	Kubeconfig string
	Agents     map[string]string
}

type state map[string]string

func (s state) put(resource string, object any) error {
	o, ok := object.(runtime.Object)
	if !ok {
		return fmt.Errorf("%T is no object", object)
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	o = o.DeepCopyObject()
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // the objects of a list lack kind and apiVersion
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	s[key(resource, m.GetNamespace(), m.GetName())] = fmt.Sprintf("%s %x", m.GetResourceVersion(), sha256.Sum256(data))
	return nil
}

func key(resource, namespace, name string) string { return resource + " " + namespace + "/" + name }

// informersReport is an informer's state at one time. Stored is the content of the informer's store. Received is the
// state that follows from the handler's events alone.
type informersReport struct{ Stored, Received state }

// informersMain answers each input line with a JSON line that has the informersReports by user agent.
func informersMain() int {
	if err := runInformers(); err != nil {
		fmt.Fprintln(os.Stderr, "informers:", err)
		return 1
	}
	return 0
}

func runInformers() error {
	var c informersConfig
	if err := json.Unmarshal([]byte(os.Getenv(informersEnv)), &c); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reports := map[string]func() (informersReport, error){}
	for contentType, agent := range c.Agents {
		config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
		if err != nil {
			return err
		}
		config.UserAgent, config.QPS = agent, -1
		config.ContentType, config.AcceptContentTypes = contentType, contentType
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		if reports[agent], err = inform(ctx, client); err != nil {
			return err
		}
	}
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		all := map[string]informersReport{}
		for agent, report := range reports {
			r, err := report()
			if err != nil {
				return err
			}
			all[agent] = r
		}
		if err := out.Encode(all); err != nil {
			return err
		}
	}
	return nil
}

func inform(ctx context.Context, client kubernetes.Interface) (func() (informersReport, error), error) {
	f := informers.NewSharedInformerFactory(client, 0)
	all := map[string]cache.SharedIndexInformer{
		"pods": f.Core().V1().Pods().Informer(), "configmaps": f.Core().V1().ConfigMaps().Informer(),
		"deployments": f.Apps().V1().Deployments().Informer(),
	}
	var mu sync.Mutex
	received := state{} // mu guards received
	var failed error
	for resource, i := range all {
		put := func(object any) {
			mu.Lock()
			defer mu.Unlock()
			if err := received.put(resource, object); err != nil {
				failed = err
			}
		}
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    put,
			UpdateFunc: func(_, object any) { put(object) },
			DeleteFunc: func(object any) {
				name, err := cache.DeletionHandlingObjectToName(object)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = err
				}
				delete(received, key(resource, name.Namespace, name.Name))
			},
		})
		if err != nil {
			return nil, err
		}
	}
	f.StartWithContext(ctx)
	return func() (informersReport, error) {
		r := informersReport{Stored: state{}, Received: state{}}
		for resource, i := range all {
			for _, object := range i.GetStore().List() {
				if err := r.Stored.put(resource, object); err != nil {
					return r, err
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for k, v := range received {
			r.Received[k] = v
		}
		return r, failed
	}, nil
}

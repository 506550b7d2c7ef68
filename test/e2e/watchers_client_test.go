package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
)

type watchSpec struct {
	namespace string
	color     string // selected label value; "" selects all objects
	name      string
	metadata  bool // the client requests metadata only
	protobuf  bool
	watchList bool // the client requests initial events in place of a list
	limit     int64
}

func (s watchSpec) String() string {
	type fields watchSpec // watchSpec without its method String
	return fmt.Sprintf("%+v", fields(s))
}

func (s watchSpec) selects(namespace, name, color string) bool {
	return (s.namespace == "" || s.namespace == namespace) && (s.name == "" || s.name == name) &&
		(s.color == "" || s.color == color)
}

func (s watchSpec) options() metav1.ListOptions {
	var o metav1.ListOptions
	if s.color != "" {
		o.LabelSelector = labels.Set{"color": s.color}.String()
	}
	if s.name != "" {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", s.name).String()
	}
	return o
}

// newSpec returns the selection and encoding of the client with number i. The first clients are all different.
func newSpec(i int) watchSpec {
	s := watchSpec{metadata: i%5 == 1, protobuf: i%3 == 0, watchList: i%4 == 2}
	if i%7 == 3 {
		s.limit = 50
	}
	switch i % 6 {
	case 1:
		s.namespace = changedNamespace(i)
	case 2:
		s.color = colors[i%len(colors)]
	case 3:
		s.namespace, s.color = changedNamespace(i), colors[i%len(colors)]
	case 4:
		s.name = changedName(i)
		s.namespace = changedNamespace(i)
	}
	return s
}

// watchClient lists and watches as client-go's reflector does, and keeps the messages as a story.
type watchClient struct {
	spec   watchSpec
	random *rand.Rand
	list   func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error)
	watch  func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)

	story   story
	rv      string
	reached atomic.Int64 // resourceVersion up to which the client has received all changes
	events  atomic.Int64 // number of events in the story
}

func newWatchClient(t *testing.T, kubeconfig string, i int, seed uint64) *watchClient {
	t.Helper()
	c := &watchClient{spec: newSpec(i), random: rand.New(rand.NewPCG(seed, 2))}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	if c.spec.metadata {
		client, err := metadata.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		objects := client.Resource(configMaps).Namespace(c.spec.namespace)
		c.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) }
		c.watch = objects.Watch
		return c
	}
	if c.spec.protobuf {
		config.ContentType = runtime.ContentTypeProtobuf
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects := client.CoreV1().ConfigMaps(c.spec.namespace)
	c.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) }
	c.watch = objects.Watch
	return c
}

// run watches until ctx ends. Unexpected errors become steps of the story.
func (c *watchClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.connect(ctx)
		if code := reasonCode(err); err != nil && code >= 400 && code < 500 && code != http.StatusTooManyRequests {
			if code != http.StatusGone {
				c.story.add(watchStep{kind: wrong, text: err.Error()})
			}
			c.rv = "" // so that the next connect lists
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(c.random.Int64N(int64(200 * time.Millisecond)))):
			}
		}
	}
}

// reasonCode returns the code of a Status, or 0 for other errors.
func reasonCode(err error) int {
	if status, ok := err.(apierrors.APIStatus); ok { //nolint:errorlint // client-go returns it as it is
		return int(status.Status().Code)
	}
	return 0
}

// connect opens a watch and keeps its messages until the watch ends. If the client has no resourceVersion, it lists
// first.
func (c *watchClient) connect(ctx context.Context) error {
	o := c.spec.options()
	o.AllowWatchBookmarks = true
	seconds := 3 + c.random.Int64N(6)
	o.TimeoutSeconds = &seconds
	switch {
	case c.rv != "":
		o.ResourceVersion = c.rv
	case c.spec.watchList:
		all := true
		o.SendInitialEvents, o.ResourceVersionMatch = &all, metav1.ResourceVersionMatchNotOlderThan
	default:
		if err := c.relist(ctx); err != nil {
			return err
		}
		o.ResourceVersion = c.rv
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := c.watch(ctx, o)
	if err != nil {
		return err
	}
	defer w.Stop()
	c.story.add(watchStep{kind: connected, rv: number(o.ResourceVersion)})
	return c.follow(w, c.rv == "")
}

func (c *watchClient) relist(ctx context.Context) error {
	o := c.spec.options()
	o.Limit = c.spec.limit
	found := watchStep{kind: listed}
	for {
		list, err := c.list(ctx, o)
		if err != nil {
			return err
		}
		l, err := meta.ListAccessor(list)
		if err != nil {
			return err
		}
		err = meta.EachListItem(list, func(obj runtime.Object) error {
			o, err := observedOf(obj)
			found.objects = append(found.objects, o)
			return err
		})
		if err != nil {
			return err
		}
		if rv := number(l.GetResourceVersion()); found.rv != 0 && rv != found.rv {
			c.story.add(watchStep{kind: wrong, text: fmt.Sprintf("pages of one list are of %d and %d", found.rv, rv)})
		} else {
			found.rv = rv
		}
		if o.Continue = l.GetContinue(); o.Continue == "" {
			break
		}
	}
	c.story.add(found)
	c.reach(found.rv)
	return nil
}

func (c *watchClient) reach(rv int64) {
	c.rv = strconv.FormatInt(rv, 10)
	c.reached.Store(rv)
}

// follow receives events until the watch ends. With initial, the watch begins with events for the existing objects.
func (c *watchClient) follow(w watch.Interface, initial bool) error {
	found := watchStep{kind: listed}
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return apierrors.FromObject(e.Object)
		}
		o, err := observedOf(e.Object)
		if err != nil {
			return err
		}
		m, err := meta.Accessor(e.Object)
		switch {
		case err != nil:
			return err
		case e.Type == watch.Bookmark && initial:
			if m.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
				c.story.add(watchStep{kind: wrong, text: "a bookmark comes before the end of the initial events"})
			}
			initial, found.rv = false, o.rv
			c.story.add(found)
		case e.Type == watch.Bookmark:
			c.story.add(watchStep{kind: bookmarked, rv: o.rv})
		case initial && e.Type != watch.Added:
			c.story.add(watchStep{kind: wrong, text: fmt.Sprintf("%s is an initial event", e.Type)})
		case initial:
			found.objects = append(found.objects, o)
			continue
		default:
			c.story.add(watchStep{kind: event, rv: o.rv, event: e.Type, objects: []observed{o}})
			c.events.Add(1)
		}
		c.reach(o.rv)
	}
	return nil
}

func observedOf(obj runtime.Object) (observed, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return observed{}, err
	}
	return observed{
		key: m.GetNamespace() + "/" + m.GetName(), rv: number(m.GetResourceVersion()), n: m.GetAnnotations()["n"],
	}, nil
}

func number(rv string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(rv), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

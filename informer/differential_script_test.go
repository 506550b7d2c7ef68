package informer_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// config configures the compared informers and their servers.
type config struct {
	resync time.Duration
	// transform is the kind of transform: none, mark (marks objects), or fail (marks objects, and fails for poisoned
	// values).
	transform            string
	oldErrorHandler      bool
	watchList            bool // watchList is true if client-go's server supports sendInitialEvents
	onDisk               bool // onDisk is true if our informer has a store file, and can be restarted
	residency            store.Residency
	commitInterval       time.Duration
	pageSize             int64
	listDelay, pageDelay time.Duration
	index                bool
	// contentType is the type of the HTTP answers that our informer decodes itself; "" if its server passes Go objects.
	contentType string
}

func (c config) String() string {
	return fmt.Sprintf(
		"resync %v, transform %s, old error handler %v, watch-list %v, on disk %v, %v, commits after %v, pages of %d, "+
			"lists take %v, further pages %v, index %v, answers %q",
		c.resync, c.transform, c.oldErrorHandler, c.watchList, c.onDisk, c.residency, c.commitInterval, c.pageSize,
		c.listDelay, c.pageDelay, c.index, c.contentType)
}

func (c config) indexers() cache.Indexers {
	if !c.index {
		return cache.Indexers{}
	}
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

func (c config) transformer() cache.TransformFunc {
	if c.transform == "none" {
		return nil
	}
	return func(obj any) (any, error) {
		p, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("the transform was given a %T", obj)
		}
		if c.transform == "fail" && strings.HasSuffix(p.Labels["value"], poison) {
			return nil, errors.New("the transform fails on poison")
		}
		p.Spec.NodeName = "marked"
		return p, nil
	}
}

// byValue returns an index by the pods' value, which scripts add under the given name.
func byValue(name string) cache.Indexers {
	return cache.Indexers{name: func(obj any) ([]string, error) {
		value := obj.(*corev1.Pod).Labels["value"]
		return []string{value, "any"}, nil
	}}
}

type op struct {
	do     string
	key    string
	value  string
	n      int
	d      time.Duration
	verb   string
	how    string
	spec   handlerSpec
	racing bool // racing means that the next step follows without waiting until all goroutines are blocked
}

func (o op) String() string {
	s := o.do
	switch o.do {
	case "write", "recreate":
		s += " " + o.key + "=" + o.value
	case "delete":
		s += " " + o.key
	case "burst":
		s += fmt.Sprintf(" of %d on %s from %s", o.n, o.key, o.value)
	case "add":
		s += " " + o.spec.String()
	case "remove", "shut down", "block", "unblock":
		s += fmt.Sprintf(" handler %d", o.n)
	case "flood":
		s += fmt.Sprintf(" of %d", o.n)
	case "wait":
		s += " " + o.d.String()
	case "fail":
		s += fmt.Sprintf(" the next %d of %s with %s", o.n, o.verb, o.how)
	case "outage":
		s += " with " + o.how
	case "error event", "odd":
		s += " " + o.how
	case "index":
		s += " " + o.value
	}
	if o.racing {
		s += " (racing)"
	}
	return s
}

type script struct {
	seed   uint64
	config config
	ops    []op
}

func (s script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "script %d: %v\n", s.seed, s.config)
	for n, o := range s.ops {
		fmt.Fprintf(&b, "%4d %v\n", n, o)
	}
	return b.String()
}

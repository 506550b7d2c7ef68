package reflector_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

type request struct {
	Watch bool
	metav1.ListOptions
	N int
}

func (r request) probe() bool { return !r.Watch && r.Limit == 1 }

type past struct {
	rv  int
	typ watch.EventType
	// obj is the object after the event, with rv as its resourceVersion.
	obj *corev1.ConfigMap
}

// server is a scripted API server for ConfigMaps, a ListerWatcher without HTTP. Like an API server it has a history,
// snapshots for continue tokens, time-outs, and bookmarks.
type server struct {
	mu      sync.Mutex
	rv      int
	uid     int
	objects map[string]*corev1.ConfigMap
	history []past
	// ledger is the complete history of events; compactions do not shorten it.
	ledger []past
	// floor is the resourceVersion of the last compaction: a watch from below floor receives a 410.
	floor int
	// snapshots maps a resourceVersion to the objects at that time, for requests with a continue token.
	snapshots map[int][]*corev1.ConfigMap
	watches   []*openWatch
	requests  []request

	noBookmarks bool
	ignoreLimit bool
	// expireInBand: a watch from below floor receives its 410 as an ERROR event after 200, as from kube-apiserver.
	expireInBand bool
	noListRV     bool
	// onList and onWatch, if set, may return the answer in the server's place.
	onList    func(r request) (runtime.Object, error)
	onWatch   func(ctx context.Context, r request) (watch.Interface, error)
	afterList func(r request)
	// view is the reflector's shard; state and stateAt contain only objects of the shard. With supportsShards the
	// server applies view to requests. view must be set before objects are put, since it spreads their UIDs.
	view           sharding.Selector
	supportsShards bool
	// fixedSelector, if set, replaces the field selector of requests, as the tweak function of some ListerWatchers
	// does.
	fixedSelector string
}

func newServer() *server {
	return &server{rv: 100, objects: map[string]*corev1.ConfigMap{}, snapshots: map[int][]*corev1.ConfigMap{},
		expireInBand: true}
}

func (s *server) put(key, value string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	ns, name, _ := strings.Cut(key, "/")
	typ := watch.Modified
	old, ok := s.objects[key]
	uid := types.UID("")
	if ok {
		uid = old.UID
	} else {
		typ = watch.Added
		s.uid++
		uid = s.newUID()
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: uid, ResourceVersion: strconv.Itoa(s.rv)},
		Data:       map[string]string{"v": value},
	}
	s.objects[key] = cm
	s.recordLocked(past{s.rv, typ, cm})
	return cm.ResourceVersion
}

func (s *server) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[key]
	if !ok {
		return
	}
	s.rv++
	last := old.DeepCopy()
	last.ResourceVersion = strconv.Itoa(s.rv)
	delete(s.objects, key)
	s.recordLocked(past{s.rv, watch.Deleted, last})
}

// other advances the server's resourceVersion by n, as changes of other resources do.
func (s *server) other(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv += n
}

func (s *server) recordLocked(p past) {
	s.ledger = append(s.ledger, p)
	s.history = append(s.history, p)
	if !s.sends(p.obj) {
		return
	}
	for _, w := range s.watches {
		w.pushLocked(watch.Event{Type: p.typ, Object: p.obj.DeepCopy()})
		if !w.mute {
			w.bookRV = p.rv
		}
	}
}

// compact drops the history of events, and the objects kept for continue tokens.
func (s *server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = s.rv
	s.history = nil
	s.snapshots = map[int][]*corev1.ConfigMap{}
}

// backup is a copy of the server's state, like an etcd backup. restore returns the server to that state and ends every
// watch; later events belong to another history.
type backup struct {
	rv      int
	objects map[string]*corev1.ConfigMap
	history []past
	ledger  []past
}

func (s *server) backup() backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := backup{rv: s.rv, objects: map[string]*corev1.ConfigMap{}, history: slices.Clone(s.history),
		ledger: slices.Clone(s.ledger)}
	for k, v := range s.objects {
		b.objects[k] = v
	}
	return b
}

func (s *server) restore(b backup) {
	s.mu.Lock()
	s.rv, s.history, s.ledger = b.rv, slices.Clone(b.history), slices.Clone(b.ledger)
	s.objects = map[string]*corev1.ConfigMap{}
	for k, v := range b.objects {
		s.objects[k] = v
	}
	s.uid += 1000 // objects created after a restore get other UIDs, since real UIDs are random
	s.mu.Unlock()
	s.cut(nil)
}

func (s *server) state() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[string]string{}
	for k, v := range s.objects {
		if s.viewed(v) {
			m[k] = digest(v)
		}
	}
	return m
}

func (s *server) stateAt(rv string) map[string]string {
	at, _ := strconv.Atoi(rv)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[string]string{}
	for _, p := range s.ledger {
		if p.rv > at {
			break
		}
		key := p.obj.Namespace + "/" + p.obj.Name
		if !s.viewed(p.obj) {
			continue
		}
		if m[key] = digest(p.obj); p.typ == watch.Deleted {
			delete(m, key)
		}
	}
	return m
}

func digest(cm *corev1.ConfigMap) string {
	return fmt.Sprintf("%s %s %s", cm.UID, cm.ResourceVersion, cm.Data["v"])
}

func (s *server) counts() (lists, probes, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		switch {
		case r.Watch:
			watches++
		case r.probe():
			probes++
		default:
			lists++
		}
	}
	return lists, probes, watches
}

func (s *server) log(r request) request {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.N = len(s.requests)
	s.requests = append(s.requests, r)
	return r
}

func (s *server) seen() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *server) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	r := s.log(request{ListOptions: o})
	if s.onList != nil {
		if l, err := s.onList(r); l != nil || err != nil {
			return l, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l, err := s.list(r)
	s.mu.Lock()
	after := s.afterList
	s.mu.Unlock()
	if after != nil {
		after(r)
	}
	return l, err
}

func (s *server) list(r request) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, start := s.rv, ""
	all := s.sortedLocked()
	if r.ResourceVersion != "" {
		var err error
		if at, all, err = s.cacheLocked(r.ResourceVersion); err != nil {
			return nil, err
		}
	}
	if r.Continue != "" {
		rv, key, _ := strings.Cut(r.Continue, ":")
		start = key
		if n, _ := strconv.Atoi(rv); n > 0 {
			snap, ok := s.snapshots[n]
			if !ok {
				return nil, expiredToken("-1:" + key)
			}
			at, all = n, snap
		}
	}
	sel := r.FieldSelector
	if s.fixedSelector != "" {
		sel = s.fixedSelector
	}
	parsed, err := fields.ParseSelector(sel)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	l := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(at)}}
	if s.noListRV {
		l.ResourceVersion = ""
	}
	for _, cm := range all {
		key := cm.Namespace + "/" + cm.Name
		if key <= start || !s.sends(cm) ||
			!parsed.Matches(fields.Set{"metadata.name": cm.Name, "metadata.namespace": cm.Namespace}) {
			continue
		}
		if !s.ignoreLimit && r.Limit > 0 && int64(len(l.Items)) == r.Limit {
			last := l.Items[len(l.Items)-1]
			s.snapshots[at] = all
			l.Continue = fmt.Sprintf("%d:%s", at, last.Namespace+"/"+last.Name)
			break
		}
		l.Items = append(l.Items, *cm.DeepCopy())
	}
	return l, nil
}

func (s *server) cacheLocked(notOlderThan string) (at int, all []*corev1.ConfigMap, err error) {
	at = s.rv
	if wanted, _ := strconv.Atoi(notOlderThan); wanted > at {
		return 0, nil, apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", wanted, at), 1)
	}
	objects := map[string]*corev1.ConfigMap{}
	for _, p := range s.ledger {
		if p.rv <= at {
			key := p.obj.Namespace + "/" + p.obj.Name
			if objects[key] = p.obj; p.typ == watch.Deleted {
				delete(objects, key)
			}
		}
	}
	return at, sorted(objects), nil
}

func (s *server) sortedLocked() []*corev1.ConfigMap { return sorted(s.objects) }

func sorted(objects map[string]*corev1.ConfigMap) []*corev1.ConfigMap {
	var all []*corev1.ConfigMap
	for _, cm := range objects {
		all = append(all, cm)
	}
	slices.SortFunc(all, func(a, b *corev1.ConfigMap) int {
		return cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return all
}

// expiredToken returns the 410 for an expired continue token, with a new token for a newer resourceVersion.
func expiredToken(token string) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old")
	err.ErrStatus.Continue = token
	return err
}

var errRefused = errors.New("dial tcp: connection refused")

func asJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

// larder is one run of Larder's informer, from the opening of its store to the closing.
type larder struct {
	client   *client
	store    *store.Store
	informer *informer.Informer
	ledger   *ledger
	handler  cache.ResourceEventHandlerRegistration
	started  time.Time

	cancel context.CancelFunc
	done   chan struct{}
}

type larderStart struct {
	cluster         Cluster
	namespace, file string
	userAgent       string
	policy          informer.SyncPolicy
	ledger          *ledger
}

func startLarder(ctx context.Context, o larderStart) (*larder, error) {
	c, err := newClient(o.cluster, o.userAgent)
	if err != nil {
		return nil, err
	}
	l := &larder{client: c, ledger: o.ledger, started: time.Now(), done: make(chan struct{})}
	discard := logr.Discard()
	if l.store, err = store.Open(o.file, store.Options{Logger: &discard}); err != nil {
		c.close()
		return nil, err
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	l.informer, err = informer.New(c.listWatch(o.namespace, c.Interface), &corev1.Pod{}, informer.Options{
		Store:       l.store,
		Identity:    entry.Identity{GroupVersionResource: pods, Namespace: o.namespace},
		Resource:    entry.ResourceInfo{Kind: "Pod", Singular: "pod", ShortNames: []string{"po"}, Namespaced: true},
		SyncPolicy:  o.policy,
		ClusterID:   requests.KubeSystemUID(c),
		OpenAPIHash: requests.OpenAPIHash(c, corev1.SchemeGroupVersion),
		Logger:      &discard,
	})
	if err == nil {
		err = l.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	}
	if err == nil {
		l.handler, err = l.informer.AddEventHandler(o.ledger)
	}
	if err != nil {
		c.close()
		return nil, errors.Join(err, l.store.Close())
	}
	ctx, l.cancel = context.WithCancel(ctx)
	go func() {
		defer close(l.done)
		l.informer.RunWithContext(ctx)
	}()
	return l, nil
}

func (l *larder) stop() error {
	l.cancel()
	<-l.done
	l.client.close()
	return l.store.Close()
}

func (l *larder) awaitSync(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for _, checker := range []cache.DoneChecker{l.informer.HasSyncedChecker(), l.handler.HasSyncedChecker()} {
		select {
		case <-checker.Done():
		case <-ctx.Done():
			return 0, fmt.Errorf("larder has not synced: %w", errors.Join(ctx.Err(), l.informer.Status().Err))
		}
	}
	return time.Since(l.started), nil
}

// awaitLive waits until the watch is open, at least one relist has been made, and all received changes are stored.
func (l *larder) awaitLive(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		s := l.informer.Status()
		if s.Source == informer.Live && len(s.Reflector.Relists) > 0 {
			return time.Now(), nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("larder has not come back to the server: state %s: %w", s.Reflector.State,
				errors.Join(ctx.Err(), s.Err))
		}
	}
}

// await waits for a channel that the demo's handler closes when it receives the marker pod.
func (l *larder) await(ctx context.Context, event <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the watch did not deliver the change of %s: %w", l.ledger.marker,
			errors.Join(ctx.Err(), l.informer.Status().Err))
	}
}

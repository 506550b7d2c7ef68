package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

type plain struct {
	client   *client
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration
	started  time.Time

	cancel context.CancelFunc
	done   chan struct{}
}

// listOnly disables WatchList in one client-go informer, as KUBE_FEATURE_WatchListClient=false does for a process.
type listOnly struct{}

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

// startPlain starts cache.NewSharedIndexInformer with its defaults, or with LIST if withList is true.
func startPlain(ctx context.Context, cluster Cluster, namespace, userAgent string, withList bool) (*plain, error) {
	c, err := newClient(cluster, userAgent)
	if err != nil {
		return nil, err
	}
	var traits any = c.Interface
	if withList {
		traits = listOnly{}
	}
	p := &plain{client: c, started: time.Now(), done: make(chan struct{})}
	p.informer = cache.NewSharedIndexInformer(c.listWatch(namespace, traits), &corev1.Pod{}, 0, cache.Indexers{})
	err = p.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	if err == nil {
		p.handler, err = p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
	}
	if err != nil {
		c.close()
		return nil, err
	}
	ctx, p.cancel = context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		p.informer.RunWithContext(ctx)
	}()
	return p, nil
}

func (p *plain) stop() {
	p.cancel()
	<-p.done
	p.client.close()
}

func (p *plain) awaitSync(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	select {
	case <-p.handler.HasSyncedChecker().Done():
		return time.Since(p.started), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("client-go's informer has not synced: %w", ctx.Err())
	}
}

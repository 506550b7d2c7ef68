package informer

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// scan goes through the server's identities page by page. It returns why everything has to be listed, or nothing if that
// is not necessary; with an error too, if that came after something had been found.
func (a *audit) scan(ctx context.Context) (due reflector.Reason, err error) {
	after, token := "", ""
	for {
		held := a.r.LastSyncResourceVersion()
		p, took, err := a.page(ctx, token)
		if err != nil {
			return due, err
		}
		switch {
		case !comparableRVs(p.resourceVersion, held):
			return due, ErrNotAuditable
		case token == "" && newer(held, p.resourceVersion):
			return reflector.ReasonAhead, nil
		case !inOrder(after, p.refs):
			return reflector.ReasonAudit, nil // a list copes with a server that does not sort
		}
		a.report.Objects += len(p.refs)
		last := ""
		if n := len(p.refs); n > 0 && p.next != "" {
			last = p.refs[n-1].Key
		}
		if len(p.refs) > 0 || p.next == "" {
			if err := a.comparePage(ctx, p, after, last); err != nil {
				return due, err
			}
			after = last
		}
		if a.report.Suspects > 0 {
			due = reflector.ReasonAudit
		}
		if p.next == "" || a.report.Suspects > maxSuspects {
			return due, nil
		}
		token = p.next
		if err := sleep(ctx, a.clock, min(max(auditPause, auditRest*took), auditPauseMax)); err != nil {
			return due, err
		}
	}
}

// inOrder reports whether the keys come after the given one, each after the one before.
func inOrder(after string, refs []entry.ObjectRef) bool {
	for _, ref := range refs {
		if ref.Key <= after {
			return false
		}
		after = ref.Key
	}
	return true
}

// page asks for a page, again and again if need be. A token whose history is gone is exchanged for the one that the server offers: each page is judged by itself.
func (a *audit) page(ctx context.Context, token string) (p refPage, took time.Duration, err error) {
	begun := a.clock.Now()
	for delay := storeBackoff(); ; {
		asked := a.clock.Now()
		limited, cancel := context.WithTimeout(ctx, auditTimeout)
		p, err = a.lister.page(limited, metav1.ListOptions{Limit: auditPage, Continue: token})
		cancel()
		if err == nil {
			a.contact()
			return p, a.clock.Since(asked), nil
		}
		if ctx.Err() != nil {
			return p, 0, context.Cause(ctx)
		}
		var status apierrors.APIStatus
		if apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" {
			token = status.Status().Continue
			continue
		}
		if a.clock.Since(begun) > auditRetry {
			return p, 0, err
		}
		klog.FromContext(ctx).V(2).Info("A page of an audit failed; trying again", "err", err)
		wait := delay.Step()
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait += time.Duration(seconds) * time.Second
		}
		if err := sleep(ctx, a.clock, wait); err != nil {
			return p, 0, err
		}
	}
}

// comparePage compares a page with what is stored behind after, up to last (empty is the end). What differs is compared
// again when the stream has come to the page.
func (a *audit) comparePage(ctx context.Context, p refPage, after, last string) error {
	suspects, err := a.suspects(ctx, p, after, last)
	if err == nil && len(suspects) > 0 {
		if err = a.catchUp(ctx, p.resourceVersion); err == nil {
			suspects, err = a.suspects(ctx, p, after, last)
		}
	}
	if err != nil {
		return err
	}
	a.audits.suspect(suspects)
	a.report.Suspects += len(suspects)
	return nil
}

// catchUp waits until what is stored is as new as the page. A live watch that does not get there has no bookmarks: then it
// is not waited for any longer.
func (a *audit) catchUp(ctx context.Context, to string) error {
	begun := a.clock.Now()
	for newer(to, a.r.LastSyncResourceVersion()) && a.clock.Since(begun) < auditBehind {
		if !a.r.Live() {
			begun = a.clock.Now()
		}
		if err := sleep(ctx, a.clock, auditStep); err != nil {
			return err
		}
	}
	if err := a.queue.WaitIdle(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// suspects returns the keys of which the page has something else than is stored, unless it is known why.
func (a *audit) suspects(ctx context.Context, p refPage, after, last string) (keys []string, err error) {
	stored, err := a.refsAfter(ctx, after, last)
	if err != nil {
		return nil, err
	}
	for _, server := range p.refs {
		for len(stored) > 0 && stored[0].Key < server.Key {
			if !newer(stored[0].ResourceVersion, p.resourceVersion) { // else it came after the page
				keys = append(keys, stored[0].Key)
			}
			stored = stored[1:]
		}
		if len(stored) == 0 || stored[0].Key != server.Key {
			if !a.audits.isDeleted(server.Key) && !a.audits.isSkipped(server.Key) {
				keys = append(keys, server.Key)
			}
			continue
		}
		have := stored[0]
		stored = stored[1:]
		if have != server && !newer(have.ResourceVersion, p.resourceVersion) && !a.audits.isSkipped(server.Key) {
			keys = append(keys, server.Key)
		}
	}
	for _, ref := range stored {
		if !newer(ref.ResourceVersion, p.resourceVersion) {
			keys = append(keys, ref.Key)
		}
	}
	return keys, nil
}

package reflector

import (
	"context"
	"fmt"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/klog/v2"
)

// versionTimeout bounds Options.ServerVersion: it only decides how to ask.
const versionTimeout = 10 * time.Second

// pagedFromCache is the first version whose cache serves pages, also those after the first (KEP-4988: the feature gate
// ListFromCacheSnapshot is on by default from there).
var pagedFromCache = utilversion.MajorMinor(1, 34)

// cachedFrom returns what one whole list from the server's cache must not be older than, or nothing if the list should come in
// pages: they are at the newest state, which a cache may be behind of.
func (s *session) cachedFrom(ctx context.Context, reason Reason) string {
	from := s.cur.rv
	if s.o.ServerVersion == nil || s.noCached || from != "" && from == s.cachedAt {
		return "" // or the last list came from there, and led nowhere: it may be one whose history is over
	}
	switch reason {
	case ReasonCold:
		from = "0"
	case ReasonAhead, ReasonRewound, ReasonCluster:
		return "" // what we hold is of another history
	}
	// A list that was given up may have been shown in part.
	if s.listedAt != "" {
		from = maxRV(from, s.listedAt)
	}
	if from != "0" && !comparableRV(from) || !s.pagesFromEtcd(ctx) {
		return ""
	}
	return from
}

// pagesFromEtcd reports that the server is known to be older than pagedFromCache.
func (s *session) pagesFromEtcd(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	told, err := s.versioner.Call(ctx, limited, s.o.ServerVersion)
	if err == nil {
		var v *utilversion.Version
		if v, err = utilversion.ParseGeneric(told); err == nil {
			return v.LessThan(pagedFromCache)
		}
	}
	klog.FromContext(ctx).V(2).Info("The server's version is not known; the list comes in pages", "err", err)
	return false
}

// fromCache reports that the list came from the server's cache.
func (l *list) fromCache() bool { return l.pages != nil && l.pages.cached != "" }

// staleCache returns why the answer from the cache can not be used: what is held must not go back.
func (l *list) staleCache(rv string) error {
	from := l.pages.cached
	if l.begun || from == "" || comparableRV(rv) && (from == "0" || !below(rv, from)) {
		return nil
	}
	return fmt.Errorf("the server's cache is at resourceVersion %q, and it was asked for %s", rv, from)
}

// firstFailed sorts an error of the first page, or of the whole list from the cache. That one may be too large for the link, or for the
// time that it has; so the next attempt, if it is not made at once, is by pages.
func (l *list) firstFailed(ctx context.Context, err error) outcome {
	if !l.fromCache() {
		return l.s.lose(ctx, err)
	}
	l.s.noCached = true
	if isTooLarge(err) || isRefused(err) {
		return l.pageInstead(ctx, err)
	}
	return l.s.lose(ctx, err)
}

// pageInstead asks for pages.
func (l *list) pageInstead(ctx context.Context, why error) outcome {
	klog.FromContext(ctx).V(2).Info("The server's cache does not give the list; asking for pages", "err", why)
	l.pages.cached = ""
	l.pages.fetch(ctx, "")
	return outcome{}
}

package serve

import (
	"context"
	"net/http"
	"strings"

	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/serve/access"
)

const snapshots = "/snapshot"

// pages is the path prefix of Options.Page. Requests below compare are long-running: they read two whole files.
const (
	pages   = "/larder/"
	compare = pages + "compare"
)

// requestKey is the context key under which discovery handlers find the *request, to acquire memory for a schema.
type requestKey struct{}

func holdSchema(ctx context.Context, bytes int) error {
	q, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return nil
	}
	return q.lease.resize(ctx, documentMemory+int64(bytes), memoryWait)
}

func (q *request) other(reads bool) error {
	if reads {
		if err := q.allowed("get"); err != nil {
			return err
		}
	}
	isDiscovery := discovery.IsPath(q.r.URL.Path)
	if isDiscovery && !reads && q.Handler.options.Forward == nil && !strings.HasPrefix(q.r.URL.Path, "/apis") &&
		!strings.HasPrefix(q.r.URL.Path, "/openapi") {
		return errReadOnly("discovery can only be read")
	}
	switch {
	case isDiscovery:
		if err := q.lease.resize(q.ctx, documentMemory, memoryWait); err != nil {
			return err
		}
		known, err := q.catalog.all(q.ctx)
		if err != nil {
			return errRead(err)
		}
		r := q.r.WithContext(context.WithValue(q.ctx, requestKey{}, q))
		switch f := q.Handler.options.Forward; {
		case f == nil || !f.takes(r):
			known.discovery.ServeHTTP(q.w, r)
		case known.forwarded.Complete(r.URL.Path):
			known.forwarded.ServeHTTP(q.w, r)
		default:
			f.serveOr(q.w, r, known.forwarded)
		}
		return nil
	case reads && (q.r.URL.Path == "/healthz" || q.r.URL.Path == "/livez" || q.r.URL.Path == "/readyz"):
		q.w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = q.w.Write([]byte("ok"))
		return nil
	case reads && q.Handler.options.Snapshots != nil && strings.HasPrefix(q.r.URL.Path, snapshots+"/"):
		if err := access.LongRunning(q.r.Context()); err != nil {
			return err
		}
		http.StripPrefix(snapshots, q.Handler.options.Snapshots).ServeHTTP(deadlineWriter{q.w, q.writeDeadline}, q.r)
		return nil
	case reads && q.Handler.options.Page != nil && strings.HasPrefix(q.r.URL.Path, pages):
		if err := q.lease.resize(q.ctx, documentMemory, memoryWait); err != nil {
			return err
		}
		w := http.ResponseWriter(q.w)
		if q.r.URL.Path == compare || strings.HasPrefix(q.r.URL.Path, compare+"/") {
			if err := access.LongRunning(q.r.Context()); err != nil {
				return err
			}
			w = deadlineWriter{q.w, q.writeDeadline}
		}
		q.Handler.options.Page.ServeHTTP(w, q.r.WithContext(q.ctx))
		return nil
	case reads && q.isMetrics():
		q.Handler.options.Metrics.ServeHTTP(q.w, q.r)
		return nil
	case q.Handler.options.Forward != nil:
		return q.forward()
	}
	http.NotFound(q.w, q.r)
	return nil
}

package shared

import (
	"context"
	"time"
)

// Asked belongs to one call of a function that reads from the server. It holds the earliest acceptable request time of
// the answer, and later the answer's actual request time. The called function uses it until it returns, and then the
// caller. A nil Asked accepts answers of any age.
type Asked struct {
	notBefore, read time.Time
}

type contextKey struct{}

// Ask returns a context for a call whose answer must not have been requested from the server before notBefore. The zero
// time allows any answer that the function reuses.
func Ask(ctx context.Context, notBefore time.Time) (context.Context, *Asked) {
	a := &Asked{notBefore: notBefore}
	return context.WithValue(ctx, contextKey{}, a), a
}

func of(ctx context.Context) *Asked {
	a, _ := ctx.Value(contextKey{}).(*Asked)
	return a
}

func (a *Asked) allows(read time.Time) bool { return a == nil || !read.Before(a.notBefore) }

func (a *Asked) answer(read time.Time) {
	if a != nil {
		a.read = read
	}
}

// Read returns when the answer was requested; the zero time if the called function did not say.
func (a *Asked) Read() time.Time { return a.read }

package shared

import (
	"context"
	"time"
)

// Asked is one call's demand and the age of its answer. The function that is called uses it until it returns, then its
// caller. The methods work on nil: then any age will do.
type Asked struct {
	notBefore, read time.Time
}

type contextKey struct{}

// Ask returns a context for a call whose answer must not have been requested from the server before a time. The zero
// time allows any answer that the function reuses.
func Ask(ctx context.Context, notBefore time.Time) (context.Context, *Asked) {
	a := &Asked{notBefore: notBefore}
	return context.WithValue(ctx, contextKey{}, a), a
}

// of returns the Asked of a call's context; nil if it has none.
func of(ctx context.Context) *Asked {
	a, _ := ctx.Value(contextKey{}).(*Asked)
	return a
}

// allows reports whether the caller accepts an answer that was requested at that time.
func (a *Asked) allows(read time.Time) bool { return a == nil || !read.Before(a.notBefore) }

// answer tells the caller when its answer was requested.
func (a *Asked) answer(read time.Time) {
	if a != nil {
		a.read = read
	}
}

// Read returns when the answer was requested; the zero time if the function has not said so.
func (a *Asked) Read() time.Time { return a.read }

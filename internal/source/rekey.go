package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/larder-dev/larder/store"
)

// Rekeyer is a Source whose file can be sealed anew: a store that is open for writing, with keys.
type Rekeyer interface {
	// Rekey writes the file anew, with all that is to be sealed under the current key. It does nothing, and fails, if that
	// is not the key whose id is given; an empty id is any.
	Rekey(ctx context.Context, key string) (store.Compacted, error)
}

var errNoRekey = errors.New("what holds the store cannot seal it anew")

// paramKey is the id of the key in the URL.
const paramKey = "key"

// Rekey implements Rekeyer.
func (f *File) Rekey(ctx context.Context, key string) (store.Compacted, error) {
	current, err := f.store.CurrentKey(ctx)
	if err != nil {
		return store.Compacted{}, fmt.Errorf("the current key of what holds the store: %w", err)
	}
	switch {
	case current == "":
		return store.Compacted{}, errors.New("what holds the store has no keys to seal it with; start it with them")
	case key != "" && key != current:
		return store.Compacted{}, fmt.Errorf("nothing was sealed anew: what holds the store has the current key %s, not %s; "+
			"put that key on top of its file of keys, or start it with them", current, key)
	}
	return f.store.Rekey(ctx)
}

func (s *Server) rekey(w http.ResponseWriter, r *http.Request) {
	k, ok := s.source.(Rekeyer)
	if !ok {
		writeError(w, errNoRekey)
		return
	}
	done, err := k.Rekey(r.Context(), r.URL.Query().Get(paramKey))
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, done)
}

// Rekey implements Rekeyer, with the keys of the sync.
func (c *Client) Rekey(ctx context.Context, key string) (store.Compacted, error) {
	var done store.Compacted
	err := c.doJSON(ctx, http.MethodPost, pathRekey+"?"+url.Values{paramKey: {key}}.Encode(), &done)
	return done, err
}

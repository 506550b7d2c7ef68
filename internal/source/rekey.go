package source

import (
	"context"
	"errors"
	"net/http"

	"github.com/larder-dev/larder/store"
)

// Rekeyer is a Source whose file can be sealed anew: a store that is open for writing, with keys.
type Rekeyer interface {
	// Rekey writes the file anew, with all that is to be sealed under the current key.
	Rekey(ctx context.Context) (store.Compacted, error)
}

var errNoRekey = errors.New("what holds the store can not seal it anew")

// Rekey implements Rekeyer.
func (f *File) Rekey(ctx context.Context) (store.Compacted, error) { return f.store.Rekey(ctx) }

func (s *Server) rekey(w http.ResponseWriter, r *http.Request) {
	k, ok := s.source.(Rekeyer)
	if !ok {
		writeError(w, errNoRekey)
		return
	}
	done, err := k.Rekey(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, done)
}

// Rekey implements Rekeyer, with the keys that the sync was started with.
func (c *Client) Rekey(ctx context.Context) (store.Compacted, error) {
	var done store.Compacted
	err := c.doJSON(ctx, http.MethodPost, pathRekey, &done)
	return done, err
}

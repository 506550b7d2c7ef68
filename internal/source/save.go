package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/larder-dev/larder/snapshot"
)

// SaveRequest says what of a store is to be in a snapshot of it.
type SaveRequest struct {
	Filter    snapshot.Filter    `json:"filter,omitzero"`
	Redaction snapshot.Redaction `json:"redaction,omitzero"`
	// Secrets has Secrets written that are not redacted. The stream is not encrypted: what is made of it may be.
	Secrets bool `json:"secrets,omitempty"`
	// Larder is the version of the program that saves.
	Larder string `json:"-"`
	// LeftOut says what there is that is not stored, and why, one an entry.
	LeftOut []string `json:"-"`
}

// Saver is a Source of which a snapshot can be taken while it is written: the store of a running sync.
type Saver interface {
	// Save writes a snapshot of what is stored at one moment. What is in memory only is not in it.
	Save(ctx context.Context, w io.Writer, r SaveRequest) error
}

// errNoSave is the Server's whose source is no Saver. A sync that is older does not know the request, and remoteError
// says so.
var errNoSave = errors.New("what holds the store cannot take snapshots")

// Where an answer tells of an error that came after its beginning: its text, in one line, for older clients, and all of
// it, as an errorBody in JSON.
const (
	trailerError = "Larder-Error"
	trailerBody  = "Larder-Error-Body"
)

// Save implements Saver: the store goes on.
func (f *File) Save(ctx context.Context, w io.Writer, r SaveRequest) error {
	_, err := snapshot.SaveStoreTo(ctx, f.store, w, r.Options())
	return err
}

// Options are those of package snapshot.
func (r SaveRequest) Options() snapshot.SaveOptions {
	return snapshot.SaveOptions{
		Secrets: r.Secrets, Header: snapshot.Header{Larder: r.Larder, LeftOut: r.LeftOut},
		SelectOptions: snapshot.SelectOptions{Filter: r.Filter, Redaction: r.Redaction},
	}
}

// snapshot streams. An error after the first byte is told in the trailer.
func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	saver, ok := s.source.(Saver)
	if !ok {
		writeError(w, errNoSave)
		return
	}
	var req SaveRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&req); err != nil {
		writeError(w, fmt.Errorf("the request cannot be read: %w", err))
		return
	}
	req.Larder = s.sync.Version
	w.Header().Set("Trailer", trailerError+", "+trailerBody)
	out := &begun{w: w}
	if err := saver.Save(r.Context(), out, req); err != nil {
		if !out.yes {
			w.Header().Del("Trailer")
			writeError(w, err)
			return
		}
		w.Header().Set(trailerError, err.Error())
		if body, err := json.Marshal(newErrorBody(err)); err == nil {
			w.Header().Set(trailerBody, string(body))
		}
	}
}

// begun notes whether anything was written.
type begun struct {
	w   io.Writer
	yes bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.w.Write(p)
}

// Snapshot returns a snapshot of the store as the sync streams it, not encrypted. An error that the sync met is the
// reader's.
func (c *Client) Snapshot(ctx context.Context, r SaveRequest) (io.ReadCloser, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(ctx, http.MethodPost, pathSnapshot, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return &trailed{ctx: ctx, resp: resp}, nil
}

// trailed is a body whose trailer may have an error.
type trailed struct {
	ctx  context.Context
	resp *http.Response
}

func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.resp.Body.Read(p)
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		err = broken(t.ctx, err)
	case t.resp.Trailer.Get(trailerError) != "":
		err = remoteError(http.StatusInternalServerError, t.failure())
	}
	return n, err
}

// failure is the error of the trailer.
func (t *trailed) failure() errorBody {
	var body errorBody
	if json.Unmarshal([]byte(t.resp.Trailer.Get(trailerBody)), &body) != nil || body.Error == "" { // of an older sync
		body = errorBody{Error: t.resp.Trailer.Get(trailerError)}
	}
	return body
}

func (t *trailed) Close() error { return t.resp.Body.Close() }

package source

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/layout"
	"github.com/larder-dev/larder/store"
)

// errBroken is the error of a response that ends too early, because the larder sync that was sending it has stopped.
var errBroken = errors.New("the sync that holds the store stopped while it was answering; try again")

// ErrNoAnswer says that the process that listens on a store's socket does not answer. The process may be stopped or
// stuck.
var ErrNoAnswer = errors.New("no answer")

const (
	// answerWithin is the timeout of the request for a larder sync's description of itself. The answer needs neither the
	// store nor the API server. A slow answer means that the process is stopped: the kernel accepts connections to stopped
	// processes.
	answerWithin = 3 * time.Second
	// A client with a running watch requests the larder sync's description every pingEvery. It ends the watch after
	// pingFailures failures in a row, that is, after half a minute.
	pingEvery    = 7 * time.Second
	pingFailures = 3
	// agent begins the User-Agent of the client's requests; the program's version follows.
	agent = "larder/"
)

// Client is a Source that reads a store through the larder sync that holds the store's file. It also has the operations
// that only that sync can do, such as Compact.
type Client struct {
	http                    *http.Client
	answerWithin, pingEvery time.Duration
}

// Dial connects to the larder sync that listens on the socket of a store. It returns a client, and the sync's
// description of itself. It fails with ErrOtherUser if that process is of another user, with ErrOtherVersion if that
// process has another version of the protocol, and with ErrNoAnswer after a few seconds.
func Dial(ctx context.Context, storePath string) (*Client, Sync, error) {
	return dialWithin(ctx, storePath, answerWithin)
}

func dialWithin(ctx context.Context, storePath string, atMost time.Duration) (*Client, Sync, error) {
	socket, err := SocketPath(storePath)
	if err != nil {
		return nil, Sync{}, err
	}
	c := &Client{answerWithin: atMost, pingEvery: pingEvery, http: &http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket, storePath) },
		DisableCompression: true, ReadBufferSize: maxTrailer, // the size of a stream's trailer is bounded by ReadBufferSize
	}}}
	s, err := c.identify(ctx)
	if err != nil {
		_ = c.Close()
		return nil, Sync{}, err
	}
	return c, s, nil
}

func (c *Client) identify(ctx context.Context) (Sync, error) {
	limited, cancel := context.WithTimeout(ctx, c.answerWithin)
	defer cancel()
	s, err := askFor[Sync](limited, c, http.MethodGet, pathSync, nothing{})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w in %s", ErrNoAnswer, c.answerWithin)
	}
	return s, err
}

// Status implements Source.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return askFor[Status](ctx, c, http.MethodGet, pathStatus, nothing{})
}

// Check implements Source.
func (c *Client) Check(ctx context.Context) (store.Report, error) {
	return askFor[store.Report](ctx, c, http.MethodGet, pathCheck, nothing{})
}

// Compact makes the larder sync rewrite its store's file without free pages.
func (c *Client) Compact(ctx context.Context) (store.Compacted, error) {
	return askFor[store.Compacted](ctx, c, http.MethodPost, pathCompact, nothing{})
}

// Rekey makes the larder sync rewrite its file and seal all sealed objects under its current key. It fails if key is
// neither empty nor the id of the current key.
func (c *Client) Rekey(ctx context.Context, key string) (store.Compacted, error) {
	return askFor[store.Compacted](ctx, c, http.MethodPost, pathRekey, key)
}

// Audit makes the larder sync compare its collections with the API server, and repair differences. In a large cluster
// Audit takes minutes.
func (c *Client) Audit(ctx context.Context) ([]Audited, error) {
	return askFor[[]Audited](ctx, c, http.MethodPost, pathAudit, nothing{})
}

// Close implements Source.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Entries implements Source.
func (c *Client) Entries(ctx context.Context, q Query, fn func(entry.Entry) error) error {
	return receive(ctx, c, pathRecords, q, func(block []byte) error {
		for len(block) > 0 {
			e, rest, ok := layout.CutRecord(block)
			if !ok {
				return fmt.Errorf("a record in the sync's answer cannot be read: %w", errBroken)
			}
			if err := fn(e); err != nil {
				return err
			}
			block = rest
		}
		return nil
	})
}

// Log implements Logger.
func (c *Client) Log(ctx context.Context, q LogQuery, fn func(Logged) error) (from time.Time, err error) {
	err = receive(ctx, c, pathChanges, q, func(l Logged) error {
		if l.Type == Bookmark {
			from = l.Time
			return nil
		}
		return fn(l)
	})
	return from, err
}

// Snapshot returns the stream of a snapshot that the larder sync takes of its store. The stream is not encrypted. If
// the sync fails, Read returns its error.
func (c *Client) Snapshot(ctx context.Context, r SaveRequest) (io.ReadCloser, error) {
	return c.send(ctx, http.MethodPost, pathSnapshot, r)
}

// Watch implements Watcher.
func (c *Client) Watch(ctx context.Context, q WatchQuery, fn func(Event) error) error {
	if err := q.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { c.watchSync(ctx, cancel) })
	defer wg.Wait()
	defer cancel(nil)
	return causeOr(ctx, receive(ctx, c, pathWatch, q, fn))
}

// watchSync cancels a watch with ErrSilent if the larder sync no longer answers requests for its description. It
// returns when ctx ends.
func (c *Client) watchSync(ctx context.Context, end context.CancelCauseFunc) {
	for failed := 0; failed < pingFailures; failed++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.pingEvery):
		}
		if _, err := c.identify(ctx); err == nil {
			failed = -1
		}
	}
	end(ErrSilent)
}

func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func askFor[T any](ctx context.Context, c *Client, method, path string, q any) (answer T, err error) {
	in, err := c.send(ctx, method, path, q)
	if err != nil {
		return answer, err
	}
	defer func() { _ = in.Close() }()
	return answer, json.NewDecoder(in).Decode(&answer)
}

// receive calls fn with each value of a streamed response. It fails with the larder sync's error, or with errBroken if
// the stream is incomplete.
func receive[T any](ctx context.Context, c *Client, path string, q any, fn func(T) error) error {
	in, err := c.send(ctx, http.MethodGet, path, q)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	dec := gob.NewDecoder(bufio.NewReaderSize(in, streamBuffer))
	for {
		var value T
		if err := dec.Decode(&value); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := fn(value); err != nil {
			return err
		}
	}
}

// send sends a request with the query q, and returns the body of the response. The host in the URL is ignored, since
// all connections lead to the socket.
func (c *Client) send(ctx context.Context, method, path string, q any) (io.ReadCloser, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	query := url.Values{paramQuery: {string(text)}}
	req, err := http.NewRequestWithContext(ctx, method, "http://larder"+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", agent+Version())
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return &body{ctx, resp}, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var f failure
	_ = json.NewDecoder(io.LimitReader(resp.Body, maxTrailer)).Decode(&f) // another program need not send JSON
	return nil, cmp.Or(f.err(), error(&wireError{is: ErrOtherVersion, message: fmt.Sprintf("the sync that holds the "+
		"store answers %s with %s: it is another version than larder %s; run both of one version", path, resp.Status,
		Version())}))
}

// body is the body of a response. At the end of the body, Read returns the error in the trailer, or errBroken without a
// trailer.
type body struct {
	ctx  context.Context
	resp *http.Response
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.resp.Body.Read(p)
	if errors.Is(err, io.EOF) {
		var end failure
		if err = json.Unmarshal([]byte(b.resp.Trailer.Get(trailerEnd)), &end); err == nil {
			return n, cmp.Or(end.err(), io.EOF)
		}
	}
	switch {
	case err == nil:
		return n, nil
	case b.ctx.Err() != nil:
		return n, b.ctx.Err()
	}
	return n, fmt.Errorf("%w (%w)", errBroken, err)
}

func (b *body) Close() error { return b.resp.Body.Close() }

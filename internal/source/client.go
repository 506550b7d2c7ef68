package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// errBroken: the sync went away in the middle of an answer.
var errBroken = errors.New("the sync that holds the store stopped while it was answering; try again")

// ErrNoAnswer: who listens on the socket does not answer. The process may be stopped, or stuck.
var ErrNoAnswer = errors.New("no answer")

// pingFor is how long a sync may take to say who it is, which needs neither its store nor its server. One that is
// stopped is connected to all the same: the kernel does that.
const pingFor = 3 * time.Second

// Client is the sync that holds a store, as a Source, and what it does with its store when it is asked.
type Client struct {
	http *http.Client
	// pulseEvery is how often a watch looks whether the sync has said something.
	pulseEvery time.Duration
}

// Dial returns a client of the sync that listens on the socket of a store, and a description of that process. It fails
// with ErrStranger if the process belongs to another user, and gives up after a few seconds; ctx bounds it further.
func Dial(ctx context.Context, storePath string) (*Client, Sync, error) {
	return dialWithin(ctx, storePath, pingFor)
}

func dialWithin(ctx context.Context, storePath string, atMost time.Duration) (*Client, Sync, error) {
	socket, err := SocketPath(storePath)
	if err != nil {
		return nil, Sync{}, err
	}
	c := &Client{pulseEvery: pulseEvery, http: &http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket, storePath) },
		DisableCompression: true,
	}}}
	limited, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	s, err := askFor[Sync](limited, c, http.MethodGet, pathPing)
	if err != nil {
		_ = c.Close()
		if limited.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w in %s", ErrNoAnswer, atMost)
		}
		return nil, Sync{}, err
	}
	return c, s, nil
}

// Status implements Source.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return askFor[Status](ctx, c, http.MethodGet, pathStatus)
}

// Check implements Source.
func (c *Client) Check(ctx context.Context) (store.Report, error) {
	return askFor[store.Report](ctx, c, http.MethodGet, pathCheck)
}

// Compact has the sync write its file anew without free pages.
func (c *Client) Compact(ctx context.Context) (store.Compacted, error) {
	return askFor[store.Compacted](ctx, c, http.MethodPost, pathCompact)
}

// Rekey has the sync seal its file anew, with its own keys; see File.Rekey.
func (c *Client) Rekey(ctx context.Context, key string) (store.Compacted, error) {
	return askFor[store.Compacted](ctx, c, http.MethodPost, pathRekey+"?"+url.Values{paramKey: {key}}.Encode())
}

// Audit has the sync compare its collections with the server. It takes minutes for a large cluster.
func (c *Client) Audit(ctx context.Context) ([]Audited, error) {
	return askFor[[]Audited](ctx, c, http.MethodPost, pathAudit)
}

// Close implements Source.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Entries implements Source.
func (c *Client) Entries(ctx context.Context, q Query, fn func(entry.Entry) error) error {
	in, err := c.stream(ctx, http.MethodGet, pathEntries+"?"+WatchQuery{Query: q}.values().Encode(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	for got := 0; ; got++ {
		f, err := in.next()
		switch {
		case err != nil:
			return err
		case f.Entry != nil:
			if err := fn(*f.Entry); err != nil {
				return err
			}
		case f.End == nil || f.End.Entries != got:
			return errBroken
		case f.End.Unreadable != nil:
			return f.End.Unreadable
		default:
			return nil
		}
	}
}

// Snapshot returns a snapshot of the store as the sync streams it, not encrypted. An error that the sync met is the
// reader's.
func (c *Client) Snapshot(ctx context.Context, r SaveRequest) (io.ReadCloser, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return c.stream(ctx, http.MethodPost, pathSnapshot, bytes.NewReader(text))
}

// askFor returns what an answer in JSON has.
func askFor[T any](ctx context.Context, c *Client, method, path string) (answer T, err error) {
	body, err := c.send(ctx, method, path, nil)
	if err != nil {
		return answer, err
	}
	defer func() { _ = body.Close() }() // it was only read
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return answer, broken(ctx, err)
	}
	return answer, nil
}

// stream returns the frames of an answer.
func (c *Client) stream(ctx context.Context, method, path string, body io.Reader) (*frames, error) {
	in, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	return newFrames(ctx, in), nil
}

// send returns the body of an answer with status 200. The host is a filler: the dialer knows where to go.
func (c *Client) send(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://larder"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	var e errorBody
	_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&e)
	return nil, remoteError(resp.StatusCode, e)
}

func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w (%w)", errBroken, err)
}

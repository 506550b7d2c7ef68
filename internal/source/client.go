package source

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/larder-dev/larder/store"
)

// errBroken: the sync went away in the middle of an answer.
var errBroken = errors.New("the sync that holds the store stopped while it was answering; try again")

// ErrNoAnswer: who listens on the socket does not answer. The process may be stopped, or stuck.
var ErrNoAnswer = errors.New("no answer")

// pingFor is how long a sync may take to say who it is, which needs neither its store nor its server. One that is
// stopped is connected to all the same: the kernel does that.
const pingFor = 3 * time.Second

// Client is a running sync as a Source.
type Client struct {
	http *http.Client
	// pulseEvery is how often a watch looks whether the sync has said something.
	pulseEvery time.Duration
}

// Dial returns a client of the sync that listens on the socket, and who that is. It gives up after a few seconds: ctx
// bounds it further.
func Dial(ctx context.Context, socket string) (*Client, Sync, error) {
	return dialWithin(ctx, socket, pingFor)
}

func dialWithin(ctx context.Context, socket string, atMost time.Duration) (*Client, Sync, error) {
	c := &Client{pulseEvery: pulseEvery, http: &http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) },
		DisableCompression: true,
	}}}
	limited, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	var s Sync
	if err := c.getJSON(limited, pathPing, &s); err != nil {
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
	var s Status
	err := c.getJSON(ctx, pathStatus, &s)
	return s, err
}

// Check implements Source.
func (c *Client) Check(ctx context.Context) (store.Report, error) {
	var r store.Report
	err := c.getJSON(ctx, pathCheck, &r)
	return r, err
}

// Compact implements Source.
func (c *Client) Compact(ctx context.Context) (store.Compacted, error) {
	var done store.Compacted
	err := c.doJSON(ctx, http.MethodPost, pathCompact, &done)
	return done, err
}

// Close implements Source.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Objects implements Source.
func (c *Client) Objects(ctx context.Context, q Query, fn func(*unstructured.Unstructured) error) error {
	body, err := c.do(ctx, http.MethodGet, pathObjects+"?"+q.values().Encode())
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(bufio.NewReaderSize(body, 1<<16))
	var damage error
	for got := 0; ; {
		var l line
		if err := dec.Decode(&l); err != nil {
			return broken(ctx, err)
		}
		switch {
		case l.Error != "":
			return remoteError(http.StatusInternalServerError, errorBody{Error: l.Error})
		case l.Unreadable != nil:
			damage = l.Unreadable
			continue
		case l.End != nil && *l.End == got:
			return damage
		case l.Object == nil:
			return errBroken
		}
		u := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(l.Object, &u.Object); err != nil {
			return err
		}
		if err := fn(u); err != nil {
			return err
		}
		got++
	}
}

func (c *Client) getJSON(ctx context.Context, path string, into any) error {
	return c.doJSON(ctx, http.MethodGet, path, into)
}

func (c *Client) doJSON(ctx context.Context, method, path string, into any) error {
	body, err := c.do(ctx, method, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return broken(ctx, err)
	}
	return nil
}

// do returns the body of an answer with status 200.
func (c *Client) do(ctx context.Context, method, path string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, method, path, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// send returns an answer with status 200. The host is a filler: the dialer knows where to go.
func (c *Client) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://larder"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
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

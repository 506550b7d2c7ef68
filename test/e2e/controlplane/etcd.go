package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

type etcd struct {
	binary string
	dir    string
	log    string
	client int
	peer   int
	env    []string
	proc   *Process
}

func newEtcd(binaries, dir string, env []string) (*etcd, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	return &etcd{
		binary: filepath.Join(binaries, "etcd"),
		dir:    filepath.Join(dir, "etcd"),
		log:    filepath.Join(dir, "etcd.log"),
		client: ports[0],
		peer:   ports[1],
		env:    env,
	}, nil
}

func (e *etcd) url() string { return fmt.Sprintf("http://127.0.0.1:%d", e.client) }

func (e *etcd) start(ctx context.Context) (err error) {
	peer := fmt.Sprintf("http://127.0.0.1:%d", e.peer)
	e.proc, err = StartProcess("etcd", e.log, e.env, e.binary,
		"--name=e2e", "--data-dir="+e.dir, "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+e.url(), "--advertise-client-urls="+e.url(),
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=e2e="+peer)
	if err != nil {
		return err
	}
	return waitFor(ctx, "etcd", e.proc, func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, e.url()+"/readyz")
	})
}

// compact drops etcd's history up to now, through etcd's JSON gateway.
func (e *etcd) compact(ctx context.Context) error {
	var head struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := e.call(ctx, "/v3/kv/range", map[string]any{"key": "AA==", "count_only": true}, &head); err != nil {
		return err
	}
	now, err := strconv.ParseInt(head.Header.Revision, 10, 64)
	if err != nil {
		return fmt.Errorf("etcd's revision: %w", err)
	}
	return e.compactTo(ctx, now)
}

func (e *etcd) compactTo(ctx context.Context, revision int64) error {
	return e.call(ctx, "/v3/kv/compaction", map[string]any{"revision": strconv.FormatInt(revision, 10), "physical": true},
		nil)
}

func (e *etcd) call(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd %s: %s: %s", path, resp.Status, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

func waitFor(ctx context.Context, what string, p *Process, ready func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := ready(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w; its log ends:\n%s", what, err, tail(p.log, 2048))
		case <-p.done:
			return p.Exited()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func get(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %s: %s", url, resp.Status, text)
	}
	return nil
}

func (e *etcd) defragment(ctx context.Context) error {
	return e.call(ctx, "/v3/maintenance/defragment", map[string]any{}, nil)
}

func (e *etcd) snapshot(ctx context.Context, w io.Writer) (size int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url()+"/v3/maintenance/snapshot",
		strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("etcd's snapshot: %s", resp.Status)
	}
	for parts := json.NewDecoder(resp.Body); ; {
		var part struct {
			Result struct {
				Blob []byte `json:"blob"`
			} `json:"result"`
			Error any `json:"error"`
		}
		switch err := parts.Decode(&part); {
		case errors.Is(err, io.EOF):
			return size, nil
		case err != nil:
			return size, fmt.Errorf("etcd's snapshot: %w", err)
		case part.Error != nil:
			return size, fmt.Errorf("etcd's snapshot: %v", part.Error)
		}
		n, err := w.Write(part.Result.Blob)
		if size += int64(n); err != nil {
			return size, err
		}
	}
}

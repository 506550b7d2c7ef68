package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// cacheCommand is the argument that makes this program a build cache.
const cacheCommand = "-buildcache"

// buildCache implements GOCACHEPROG, the build cache protocol of the go command. A mutant's inputs come from the
// ordinary cache. The mutant's outputs, some 60 MB, go to a separate directory, which is removed afterwards: hundreds
// of mutants would fill the ordinary cache. "go doc cmd/go/internal/cacheprog" describes the protocol.
type buildCache struct {
	ordinary, own string
}

type cacheRequest struct {
	ID       int64
	Command  string
	ActionID []byte
	OutputID []byte
	BodySize int64
}

type cacheResponse struct {
	ID            int64
	Err           string     `json:",omitempty"`
	KnownCommands []string   `json:",omitempty"`
	Miss          bool       `json:",omitempty"`
	OutputID      []byte     `json:",omitempty"`
	Size          int64      `json:",omitempty"`
	Time          *time.Time `json:",omitempty"`
	DiskPath      string     `json:",omitempty"`
}

func ordinaryCache(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOCACHE: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// serve answers the go command's cache requests until the go command closes its end.
func (c buildCache) serve(in io.Reader, out io.Writer) error {
	requests, responses := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	if err := responses.Encode(cacheResponse{KnownCommands: []string{"get", "put", "close"}}); err != nil {
		return err
	}
	for {
		var q cacheRequest
		switch err := requests.Decode(&q); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		var body []byte
		if q.BodySize > 0 {
			if err := requests.Decode(&body); err != nil {
				return err
			}
		}
		a, err := c.answer(q, body)
		if err != nil {
			a.Err = err.Error()
		}
		a.ID = q.ID
		if err := responses.Encode(a); err != nil || q.Command == "close" {
			return err
		}
	}
}

func (c buildCache) answer(q cacheRequest, body []byte) (cacheResponse, error) {
	switch q.Command {
	case "close":
		return cacheResponse{}, nil
	case "put":
		return c.put(q, body)
	case "get":
		for _, dir := range []string{c.own, c.ordinary} {
			if a, ok := get(dir, q.ActionID); ok {
				return a, nil
			}
		}
		return cacheResponse{Miss: true}, nil
	}
	return cacheResponse{}, fmt.Errorf("unknown command %q", q.Command)
}

// file returns the path of a file in the layout of the go command's cache. kind "a" is the entry of an action, "d" an
// output.
func file(dir string, id []byte, kind string) string {
	name := hex.EncodeToString(id)
	return filepath.Join(dir, name[:2], name+"-"+kind)
}

// get reads the cache entry of an action. A malformed entry counts as missing, so that its output is built again.
func get(dir string, action []byte) (a cacheResponse, ok bool) {
	entry, err := os.ReadFile(file(dir, action, "a"))
	if err != nil {
		return a, false
	}
	var id, output []byte
	var nanoseconds int64
	n, err := fmt.Sscanf(string(entry), "v1 %x %x %d %d\n", &id, &output, &a.Size, &nanoseconds)
	if n != 4 || err != nil || !bytes.Equal(id, action) || len(output) == 0 {
		return a, false
	}
	at := time.Unix(0, nanoseconds)
	a.OutputID, a.Time, a.DiskPath = output, &at, file(dir, output, "d")
	info, err := os.Stat(a.DiskPath)
	return a, err == nil && info.Size() == a.Size
}

func (c buildCache) put(q cacheRequest, body []byte) (cacheResponse, error) {
	data := file(c.own, q.OutputID, "d")
	entry := fmt.Sprintf("v1 %x %x %20d %20d\n", q.ActionID, q.OutputID, len(body), time.Now().UnixNano())
	for name, text := range map[string][]byte{data: body, file(c.own, q.ActionID, "a"): []byte(entry)} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return cacheResponse{}, err
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return cacheResponse{}, err
		}
	}
	return cacheResponse{DiskPath: data}, nil
}

package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Change is a change in etcd, for comparison with the events of the API server's clients.
type Change struct {
	// Key is etcd's key: /registry/configmaps/NAMESPACE/NAME.
	Key      string
	Revision int64
	// Value is the stored object in its protobuf envelope, or nil for a deletion.
	Value []byte
}

// Changes calls fn for each change under a prefix of etcd's keys, from the first change and in order, until ctx ends.
// Call Changes before etcd compacts its history.
func (c *ControlPlane) Changes(ctx context.Context, prefix string, fn func(Change)) error {
	end := []byte(prefix)
	end[len(end)-1]++
	body, err := json.Marshal(map[string]any{"create_request": map[string]any{
		"key": []byte(prefix), "range_end": end, "start_revision": "1",
	}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcd.url()+"/v3/watch", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for in := json.NewDecoder(response.Body); ; {
		var message struct {
			Result struct {
				Canceled     bool   `json:"canceled"`
				CancelReason string `json:"cancel_reason"`
				Events       []struct {
					Type string `json:"type"`
					KV   struct {
						Key         []byte `json:"key"`
						ModRevision string `json:"mod_revision"`
						Value       []byte `json:"value"`
					} `json:"kv"`
				} `json:"events"`
			} `json:"result"`
			Error json.RawMessage `json:"error"`
		}
		if err := in.Decode(&message); err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if message.Result.Canceled || message.Error != nil {
			return fmt.Errorf("etcd ends the watch of %s: %s%s", prefix, message.Result.CancelReason, message.Error)
		}
		for _, e := range message.Result.Events {
			revision, err := strconv.ParseInt(e.KV.ModRevision, 10, 64)
			if err != nil {
				return fmt.Errorf("a revision of etcd: %w", err)
			}
			change := Change{Key: string(e.KV.Key), Revision: revision, Value: e.KV.Value}
			if e.Type == "DELETE" {
				change.Value = nil
			}
			fn(change)
		}
	}
}

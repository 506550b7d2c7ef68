package contract

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

type target struct {
	name string
	url  string
	// client sends requests unchanged: without gzip, and without following redirects.
	client *http.Client
	token  string
}

func newTarget(name, url, token string, transport http.RoundTripper) *target {
	return &target{name: name, url: url, token: token, client: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

const patience = 20 * time.Second

type response struct {
	status int
	header http.Header
	body   []byte
	err    error
}

func (w *world) ask(ctx context.Context, t *target, r Request) Answer {
	r, err := w.resolve(ctx, t, r)
	if err != nil {
		return Answer{"error": err.Error()}
	}
	first := t.send(ctx, r)
	a := normal(r, first)
	if !r.Walk || first.status != http.StatusOK {
		return a
	}
	return walk(ctx, t, r, first, a)
}

// walk requests the following pages of a list by their continue tokens. The result has all pages under the key "pages".
func walk(ctx context.Context, t *target, r Request, page response, a Answer) Answer {
	const most = 200
	pages, versions := []any{map[string]any(a)}, map[string]bool{}
	for range most {
		token, rv := listMeta(page)
		versions[rv] = true
		if token == "" {
			return Answer{"status": page.status, "pages": pages, "resourceVersions": len(versions)}
		}
		next := r
		values, _ := url.ParseQuery(r.Query)
		values.Del("resourceVersion")
		values.Del("resourceVersionMatch")
		values.Set("continue", token)
		next.Query = values.Encode()
		page = t.send(ctx, next)
		pages = append(pages, map[string]any(normal(r, page)))
	}
	return Answer{"error": fmt.Sprintf("more than %d pages", most)}
}

func listMeta(r response) (token, rv string) {
	body, _ := parse(r.header.Get("Content-Type"), r.body)
	object, _ := body.(map[string]any)
	meta, _ := object["metadata"].(map[string]any)
	token, _ = meta["continue"].(string)
	rv, _ = meta["resourceVersion"].(string)
	return token, rv
}

// resolve replaces the placeholders of a request, such as {now:pods}, by values of the target server.
func (w *world) resolve(ctx context.Context, t *target, r Request) (Request, error) {
	for name, value := range w.versions {
		r.Path = strings.ReplaceAll(r.Path, name, value)
		r.Query = strings.ReplaceAll(r.Query, name, value)
	}
	if !placeholders.MatchString(r.Query) {
		return r, nil
	}
	values, err := url.ParseQuery(r.Query)
	if err != nil {
		return r, err
	}
	first := Request{Method: "GET", Path: r.Path}
	for _, parameter := range []string{"labelSelector", "fieldSelector"} {
		if values.Has(parameter) {
			first = first.with(parameter, values.Get(parameter))
		}
	}
	token, _ := listMeta(t.send(ctx, first.with("limit", "1")))
	if token == "" {
		return r, fmt.Errorf("%s: the first page of %s has no continue token", t.name, first)
	}
	if strings.Contains(r.Query, "{expired}") {
		if token, err = w.expire(token); err != nil {
			return r, err
		}
	}
	r.Query = strings.NewReplacer("{token}", token, "{expired}", token).Replace(r.Query)
	return r, nil
}

// expire replaces the resourceVersion in a continue token by an old resourceVersion that no server has any more. Both
// compared servers use kube-apiserver's token format, which is undocumented.
func (w *world) expire(token string) (string, error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", err
	}
	var content struct {
		Version string      `json:"v"`
		RV      json.Number `json:"rv"`
		Start   string      `json:"start"`
	}
	if err := json.Unmarshal(data, &content); err != nil {
		return "", err
	}
	content.RV = json.Number(w.versions["{ancient}"])
	data, err = json.Marshal(content)
	return base64.RawURLEncoding.EncodeToString(data), err
}

func (t *target) send(ctx context.Context, r Request) response {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, t.url+r.Path, strings.NewReader(r.Body))
	if err != nil {
		return response{err: err}
	}
	req.URL.RawQuery = r.Query // unchanged, even if malformed
	req.Header.Set("Authorization", "Bearer "+t.token)
	req.Header.Set("User-Agent", "contract")
	for _, h := range r.Header {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return response{err: errors.Unwrap(err)}
	}
	defer resp.Body.Close()
	a := response{status: resp.StatusCode, header: resp.Header}
	if r.HangUp > 0 {
		defer time.AfterFunc(r.HangUp, cancel).Stop()
	}
	a.body, err = io.ReadAll(resp.Body)
	if r.HangUp > 0 && errors.Is(err, context.Canceled) {
		err = nil
	}
	if a.err = err; err == nil && resp.Header.Get("Content-Encoding") == "gzip" {
		a.body, a.err = gunzip(a.body)
	}
	return a
}

func gunzip(data []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zr)
}

package controlplane

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Request is one request according to the server's audit log.
type Request struct {
	// Verb is list, watch, get, create, update, patch, delete or deletecollection. It is empty for paths without a
	// resource.
	Verb      string
	Path      string
	Query     url.Values
	Resource  string
	Namespace string
	User      string
	UserAgent string
	Code      int
}

// Probe reports whether the request is a list that only reads the server's resourceVersion.
func (r Request) Probe() bool {
	return r.Verb == "list" && r.Query.Get("limit") == "1" && r.Query.Get("continue") == "" && !r.Lookup() && !r.Compare()
}

// Lookup reports whether the request is a list that selects one object by name.
func (r Request) Lookup() bool {
	return r.Verb == "list" && strings.Contains(r.Query.Get("fieldSelector"), "metadata.name=")
}

// Compare reports whether the request is the metadata page that an informer compares with its objects at a start. An
// audit log lacks the requested media type, but no other list has a timeout.
func (r Request) Compare() bool { return r.Verb == "list" && r.Query.Get("timeoutSeconds") != "" }

// List reports whether the request is a list other than a Probe, a Lookup and a Compare.
func (r Request) List() bool { return r.Verb == "list" && !r.Probe() && !r.Lookup() && !r.Compare() }

// Watch reports whether the request is a watch.
func (r Request) Watch() bool { return r.Verb == "watch" }

func (r Request) String() string {
	return fmt.Sprintf("%-6s %d %s?%s", r.Verb, r.Code, r.Path, r.Query.Encode())
}

type auditEvent struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource  string `json:"resource"`
		Namespace string `json:"namespace"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// readAudit returns the requests with the given user agent, in order of arrival. An empty user agent matches all
// requests. Requests whose first entry in the audit log is before the offset are omitted.
func readAudit(path string, offset int64, userAgent string) ([]*Request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, 0); err != nil {
		return nil, err
	}
	var all []*Request
	byID := map[string]*Request{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			break // the server is still writing the last line
		}
		if userAgent != "" && e.UserAgent != userAgent {
			continue
		}
		if e.Stage != "RequestReceived" {
			if r := byID[e.AuditID]; r != nil {
				r.Code = e.ResponseStatus.Code
			}
			continue
		}
		u, err := url.ParseRequestURI(e.RequestURI)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r := &Request{
			Verb: e.Verb, Path: u.Path, Query: u.Query(), User: e.User.Username, UserAgent: e.UserAgent,
			Resource: e.ObjectRef.Resource, Namespace: e.ObjectRef.Namespace,
		}
		byID[e.AuditID] = r
		all = append(all, r)
	}
	return all, lines.Err()
}

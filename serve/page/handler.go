package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Path is the path prefix of the handler that New returns. maxChanges is the maximum number of changes in a response.
const (
	Path       = "/larder/"
	maxChanges = 1000
)

// writeAtOnce is how many bytes of a response are written at a time. Each write extends the client's deadline.
const writeAtOnce = 64 << 10

// ErrNotFound is returned by Options.Sides for an object that is in neither file, or whose content is hidden.
var ErrNotFound = errors.New("there is no such object to show")

// Options are the options of New. With the zero value the handler answers all requests with 404, and the page shows
// only the objects of the served Kubernetes API.
type Options struct {
	// Status returns the state of the served data. An apierrors.APIStatus as its error sets the response's code.
	Status func(context.Context) (Status, error)
	// Changes returns the changes that a query selects, the newest first. Only one call runs at a time.
	Changes func(context.Context, ChangesQuery) (Record, error)
	// Compare returns the differences between the served file and an older one. Sides returns an object of both files
	// as YAML; a side is empty if its file lacks the object. Set both functions or neither. Only one call of the two
	// runs at a time.
	Compare func(context.Context) (Comparison, error)
	Sides   func(context.Context, Ref) (a, b string, err error)
}

// New returns a handler for GET and HEAD of paths below /larder/; it is meant for serve.Options.Page. Package serve
// checks that the user has the right to the path.
func New(o Options) http.Handler {
	d := &data{options: o, recalling: make(chan struct{}, 1), comparing: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	if o.Status != nil {
		mux.HandleFunc("GET "+Path+"status", answer(d.status))
	}
	if o.Changes != nil {
		mux.HandleFunc("GET "+Path+"changes", answer(d.changes))
	}
	if o.Compare != nil && o.Sides != nil {
		mux.HandleFunc("GET "+Path+"compare", answer(d.compare))
		mux.HandleFunc("GET "+Path+"compare/object", answer(d.sides))
	}
	mux.HandleFunc("GET "+Path, answer(func(*http.Request) (any, error) {
		return nil, &httpError{http.StatusNotFound, "there is nothing at this path"}
	}))
	return mux
}

type data struct {
	options Options
	// recalling holds a token while Changes runs, so that only one call runs: a call may read many changes.
	recalling chan struct{}
	// comparing holds a token while Compare or Sides runs: a call may read two whole files.
	comparing chan struct{}
}

type overview struct {
	Status
	Changes bool `json:"changes"`
	Compare bool `json:"compare"`
}

func (d *data) status(r *http.Request) (any, error) {
	s, err := d.options.Status(r.Context())
	if s.Collections == nil {
		s.Collections = []Collection{}
	}
	return overview{Status: s, Changes: d.options.Changes != nil, Compare: d.options.Compare != nil}, err
}

func (d *data) changes(r *http.Request) (any, error) {
	q, err := changesQueryOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	if err := begin(r.Context(), d.recalling); err != nil {
		return nil, err
	}
	defer func() { <-d.recalling }()
	record, err := d.options.Changes(r.Context(), q)
	if record.Changes == nil {
		record.Changes = []Change{}
	}
	return record, err
}

func changesQueryOf(v url.Values) (q ChangesQuery, err error) {
	q = ChangesQuery{Limit: maxChanges, Kind: v.Get("kind"), Namespace: v.Get("namespace"), Name: v.Get("name")}
	if text := v.Get("since"); text != "" {
		if q.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return q, &httpError{http.StatusBadRequest, fmt.Sprintf("since is no time as in RFC 3339: %q", text)}
		}
	}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return q, &httpError{http.StatusBadRequest, fmt.Sprintf("limit is no number above 0: %q", text)}
		}
		q.Limit = min(n, q.Limit)
	}
	return q, nil
}

func (d *data) compare(r *http.Request) (any, error) {
	if err := begin(r.Context(), d.comparing); err != nil {
		return nil, err
	}
	defer func() { <-d.comparing }()
	c, err := d.options.Compare(r.Context())
	if c.Changes == nil {
		c.Changes = []Change{}
	}
	return c, err
}

func (d *data) sides(r *http.Request) (any, error) {
	if err := begin(r.Context(), d.comparing); err != nil {
		return nil, err
	}
	defer func() { <-d.comparing }()
	q := r.URL.Query()
	a, b, err := d.options.Sides(r.Context(), Ref{Group: q.Get("group"), Version: q.Get("version"),
		Resource: q.Get("resource"), Namespace: q.Get("namespace"), Name: q.Get("name")})
	return map[string]string{"a": a, "b": b}, err
}

func begin(ctx context.Context, one chan struct{}) error {
	select {
	case one <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type httpError struct {
	code    int
	message string
}

func (e *httpError) Error() string { return e.message }

// answer returns a handler that responds with the result of f as JSON, or with a Kubernetes Status for an error.
func answer(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/json")
		v, err := f(r)
		if err != nil {
			if r.Context().Err() != nil {
				err = cmp.Or(context.Cause(r.Context()), err)
			}
			code := http.StatusInternalServerError
			if known := (*httpError)(nil); errors.As(err, &known) {
				code = known.code
			} else if errors.Is(err, ErrNotFound) {
				code = http.StatusNotFound
			} else if status := apierrors.APIStatus(nil); errors.As(err, &status) {
				code = int(status.Status().Code)
			}
			w.WriteHeader(code)
			v = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": err.Error()}
		}
		text, err := json.Marshal(v)
		// Each write extends the write deadline, so a slow client can read a large response.
		for err == nil && len(text) > 0 {
			n := min(len(text), writeAtOnce)
			_, err = w.Write(text[:n]) // Write fails if the client has disconnected
			text = text[n:]
		}
	}
}

//go:embed static
var static embed.FS

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
}

// fileTime is the write deadline of a response with a static file.
const fileTime = 30 * time.Second

type file struct {
	data      []byte
	mime, tag string
}

var mimes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// Files returns a handler that serves GET and HEAD of / and of the files below /page/ without authentication, and
// passes all other requests to next. The files contain no data.
func Files(next http.Handler) http.Handler {
	files := map[string]file{}
	names, _ := fs.Glob(static, "static/*") // Glob fails only for an invalid pattern
	for _, name := range names {
		data, _ := static.ReadFile(name) // ReadFile cannot fail: the files are embedded in the program
		sum := sha256.Sum256(data)
		at := "/page/" + path.Base(name)
		if path.Base(name) == "index.html" {
			at = "/"
		}
		files[at] = file{data, mimes[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, known := files[r.URL.Path]
		if !known || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		// Test recorders do not support deadlines. The next request on the connection sets its own deadline.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(fileTime))
		secure(w.Header())
		w.Header().Set("Content-Type", f.mime)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", f.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
	})
}

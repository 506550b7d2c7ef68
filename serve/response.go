package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// statusError returns an error with the HTTP status code, the code's name as its reason, and the formatted message.
func statusError(code int, format string, args ...any) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Message: fmt.Sprintf(format, args...),
		Reason: metav1.StatusReason(strings.ReplaceAll(http.StatusText(code), " ", "")),
	}}
}

// errTooLarge is the 504 for a list or watch at a resourceVersion that is newer than the server's current one.
func errTooLarge(wanted uint64, current string) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %s", wanted, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

// errExpiredWatch is the 410 for a watch from a resourceVersion that is older than the oldest in the history.
func errExpiredWatch(wanted, oldest string) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %s (%s)", wanted, oldest))
}

// errExpiredList is the 410 for a list at a resourceVersion that is too old.
func errExpiredList() error {
	return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
}

// errExpiredContinue is the 410 for a list whose state is no longer available. It has kube-apiserver's message, and a
// continue token for the rest of the list, from start on, in the newest state.
func errExpiredContinue(start string) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list.")
	err.ErrStatus.ListMeta.Continue = token{RV: inconsistentRV, Start: start}.encode()
	return err
}

// statusOf returns the Status that clients receive for an error: the Status of an API error, otherwise a 500.
func statusOf(err error) *metav1.Status {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonInternalError, Message: err.Error(),
	}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	return &status
}

// errRead returns the error that a client receives for a failed read of the store or snapshot, and logs the cause.
func errRead(err error) error {
	if apiErr := apierrors.APIStatus(nil); errors.As(err, &apiErr) {
		return err
	}
	klog.Background().Error(err, "What is served cannot be read")
	if errors.Is(err, store.ErrOverwritten) {
		return apierrors.NewServiceUnavailable(store.ErrOverwritten.Error())
	}
	if errors.Is(err, entry.ErrDamaged) {
		return apierrors.NewInternalError(errors.New("what is mirrored is damaged; the log of larder says more"))
	}
	return apierrors.NewInternalError(errors.New("what is mirrored cannot be read; the log of larder says why"))
}

// errReadOnly is kube-apiserver's 405, with a hint that this server is read-only and allows the methods in served.
func errReadOnly(served string) error {
	err := statusError(http.StatusMethodNotAllowed, "the server does not allow this method on the requested resource: "+
		"%s; larder sync --serve --forward sends that to the API server", served)
	err.ErrStatus.Details = &metav1.StatusDetails{}
	return err
}

// errNotMirrored is the 404 for a resource without a collection: the server cannot know whether objects exist.
func errNotMirrored(gvr schema.GroupVersionResource) error {
	err := errNoSuchPath()
	err.ErrStatus.Message += fmt.Sprintf(": %s are not mirrored here", gvr.GroupResource())
	return err
}

func errNoSuchPath() *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
}

// tooWide is the 403 for a request that includes objects that are not mirrored. scope describes the mirrored objects.
func (q *request) tooWide(k *kind, scope, hint string) error {
	return apierrors.NewForbidden(k.GroupResource(), q.path.name, fmt.Errorf(
		"of this resource only %s are mirrored here; ask for no more%s", scope, hint))
}

func (q *request) warn(text string, args ...any) {
	q.w.Header().Add("Warning", fmt.Sprintf("299 - %q", fmt.Sprintf(text, args...)))
}

func (q *request) warnOfDeprecation() {
	if q.deprecated != "" {
		q.w.Header().Add("Warning", q.deprecated)
	}
}

func (q *request) warnOfNotes() {
	for _, n := range q.Handler.options.Notes(q.collection.Info) {
		if n.Kind == entry.NoteAge { // a note on age applies to all resources, so no resource is named
			q.warn("larder: %s", n.Text)
		} else {
			q.warn("larder: %s: %s", q.collection.Identity.GroupResource(), n.Text)
		}
	}
}

// gzipThreshold is the size of a response's body, in bytes, above which the body is compressed, as in kube-apiserver.
const gzipThreshold = 128 << 10

// outputs are buffers for bodies of responses. Without them each small write would be a chunk and a TLS record.
var outputs = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}

// compressible is a response body that is compressed if it is large and the client accepts gzip.
type compressible struct {
	w     http.ResponseWriter
	takes bool
	// held is the start of the body, kept back until gzipThreshold bytes are written.
	held []byte
	out  io.Writer
	buf  *bufio.Writer
	zip  *gzip.Writer
}

func newCompressible(w http.ResponseWriter, r *http.Request) *compressible {
	return &compressible{w: w, takes: takesGzip(r)}
}

// takesGzip reports whether Accept-Encoding names gzip. Like kube-apiserver it ignores quality values.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(part) == "gzip" {
			return true
		}
	}
	return false
}

func (c *compressible) Write(data []byte) (int, error) {
	if c.out != nil {
		return c.out.Write(data)
	}
	if c.held = append(c.held, data...); len(c.held) < gzipThreshold {
		return len(data), nil
	}
	if c.takes {
		c.w.Header().Set("Content-Encoding", "gzip")
		c.w.Header().Add("Vary", "Accept-Encoding")
	}
	c.buf = outputs.Get().(*bufio.Writer)
	if c.buf.Reset(c.w); c.takes {
		c.zip, _ = gzip.NewWriterLevel(c.buf, gzip.BestSpeed) // NewWriterLevel fails only for an invalid level
		c.out = c.zip
	} else {
		c.out = c.buf
	}
	_, err := c.out.Write(c.held)
	c.held = nil
	return len(data), err
}

func (c *compressible) Close() (err error) {
	if c.out == nil {
		_, err = c.w.Write(c.held)
		return err
	}
	if c.zip != nil {
		err = c.zip.Close()
	}
	if err == nil {
		err = c.buf.Flush()
	}
	c.buf.Reset(nil)
	outputs.Put(c.buf)
	return err
}

const (
	// writeWithin is the write deadline of a long-running response; each write extends the deadline. To save calls, the
	// deadline is set again only after extendAfter, so it may be up to extendAfter earlier.
	writeWithin = 2 * time.Minute
	extendAfter = 30 * time.Second
	// endWithin is the write deadline of a long-running response once Handler.Close has been called.
	endWithin = 2 * time.Second
)

// writeDeadline bounds how long the client of one request may take to read. Without a deadline, a client that stopped
// reading but whose kernel still answers would block a write, and Handler.Close, without limit.
type writeDeadline struct {
	control *http.ResponseController

	mu sync.Mutex
	// ended is true once the deadline no longer changes. mu guards ended and set.
	ended bool
	set   time.Time
}

func (d *writeDeadline) extend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); !d.ended && now.Sub(d.set) > extendAfter {
		d.set = now
		_ = d.control.SetWriteDeadline(now.Add(writeWithin)) // SetWriteDeadline fails if the connection has no deadlines
	}
}

// shorten sets the deadline to endWithin from now. Later calls of extend do not change the deadline.
func (d *writeDeadline) shorten() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.ended = true
		_ = d.control.SetWriteDeadline(time.Now().Add(endWithin))
	}
}

// end makes later calls leave the deadline unchanged, because the request has been answered.
func (d *writeDeadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}

type deadlineWriter struct {
	http.ResponseWriter
	writeDeadline *writeDeadline
}

func (w deadlineWriter) Write(data []byte) (int, error) {
	w.writeDeadline.extend()
	return w.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach the inner writer.
func (w deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

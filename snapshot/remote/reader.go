package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// stall is how long the server may send nothing. maxStalls is the number of failures in a row that end a read.
	stall     = 30 * time.Second
	maxStalls = 4
	// A link is too slow if it delivers less than slowBytes while readers wait for slowFor.
	slowBytes = 64 << 10
	slowFor   = 2 * time.Minute
	// maxWhole bounds the size of a file on a server without range requests, in bytes.
	maxWhole = 4 << 30
	// pause is the wait before the third request of a failed read; it doubles with each further request, up to maxPause.
	// The second request follows at once. Half of each wait is random.
	pause    = time.Second
	maxPause = 20 * time.Second
	// minRange and maxRange bound the range of a request, in bytes. Ranges start at minRange, and double while reads are
	// sequential. So a server sends at most this much in vain.
	minRange = 256 << 10
	maxRange = 8 << 20
)

// reader is an io.ReaderAt of the contents at a URL. It keeps one response open, which sequential reads continue.
type reader struct {
	ctx    context.Context
	client Client
	url    *url.URL
	limit  int64
	size   int64
	tag    string // ETag or Last-Modified of the first response; "" if it had neither

	mu        sync.Mutex
	body      *body // guarded by mu; nil if no response is open
	rangeSize int64 // length of the last requested range; guarded by mu
	next      int64 // offset of the end of the last response; guarded by mu
	received  int64 // bytes received, without repeated ones; guarded by mu
	// waited is the time of waiting for data since counted was set; clock is when waited was updated. mu guards them.
	waited time.Duration
	clock  time.Time
	// got is the number of received bytes, repeated ones included; counted is its value when waited was reset. mu guards
	// them.
	got, counted int64
	whole        *os.File // a temporary file with all contents, from a server without range requests; guarded by mu
	small        []byte   // all contents, if they fit into the first range; guarded by mu
}

type body struct {
	io.ReadCloser
	at     int64 // file offset of the next byte
	end    int64 // file offset of the end of the requested range
	cancel context.CancelFunc
	timer  *time.Timer // cancels the request if nothing arrives for the time stall
}

func (b *body) close() {
	b.timer.Stop()
	b.cancel()
	_ = b.Close()
}

// errChanged: the file at the URL has changed since the first response.
var errChanged = errors.New("it was replaced while it was read")

// OpenURL opens the file at an HTTP URL and reads it by ranges. client may be nil; see Options.Client.
func OpenURL(ctx context.Context, client Client, u *url.URL) (File, error) {
	return openURL(ctx, client, u, maxWhole)
}

// openURL is OpenURL with a bound for the size of a file on a server without range requests.
func openURL(ctx context.Context, client Client, u *url.URL, limit int64) (File, error) {
	if c, ok := client.(*http.Client); client == nil || ok && c == nil {
		client = defaultClient
	}
	r := &reader{ctx: ctx, client: client, url: u, limit: limit}
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *reader) Size() int64 { return r.size }

// begin requests the first range of the file, and learns the file's size. A small file is read completely.
func (r *reader) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.tryLocked(func() error { return r.openLocked(0, minRange) })
	if err == nil && r.whole == nil && r.size <= minRange {
		small := make([]byte, r.size)
		if _, err = r.readLocked(small, 0); err == nil {
			r.small = small
		}
	}
	return err
}

func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.whole != nil:
		return r.whole.ReadAt(p, off)
	case off+int64(len(p)) > r.size:
		return 0, io.ErrUnexpectedEOF
	case r.small != nil:
		return copy(p, r.small[off:]), nil
	}
	return r.readLocked(p, off)
}

func (r *reader) readLocked(p []byte, off int64) (n int, err error) {
	err = r.tryLocked(func() error {
		for n < len(p) {
			if err := r.seekLocked(off+int64(n), int64(len(p)-n)); err != nil {
				return err
			}
			got, err := r.body.Read(p[n:])
			r.body.at, r.received, r.got = r.body.at+int64(got), r.received+int64(got), r.got+int64(got)
			if err := r.slowLocked(); err != nil {
				return err
			}
			if n += got; got > 0 {
				r.body.timer.Reset(stall)
			}
			if r.body.at == r.body.end {
				r.dropLocked()
			} else if err != nil && n < len(p) {
				r.dropLocked()
				return noEOF(err)
			}
		}
		return nil
	})
	return n, err
}

// slowLocked adds to the time that the reader has waited for data. It fails if too few bytes arrived in that time.
func (r *reader) slowLocked() error {
	now := time.Now()
	r.waited, r.clock = r.waited+now.Sub(r.clock), now
	if r.waited < slowFor {
		return nil
	}
	if got := r.got - r.counted; got < slowBytes {
		return &finalError{fmt.Errorf("the link is too slow: %d bytes came in %v", got, r.waited.Round(time.Second))}
	}
	r.waited, r.counted = 0, r.got
	return nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// tryLocked calls fn until it succeeds, or until maxStalls calls in a row have failed without receiving data. The
// answer that the server is busy is not a failure; its pause counts as waiting on a slow link.
func (r *reader) tryLocked(fn func() error) error {
	r.clock = time.Now()
	for failed, wait := 0, time.Duration(0); ; wait = min(max(2*wait, pause), maxPause) {
		before := r.received
		err := fn()
		if r.received > before {
			failed, wait = 0, 0
		}
		var final *finalError
		var busy *busyError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &final):
			return final.error
		case r.ctx.Err() != nil:
			return context.Cause(r.ctx)
		case r.slowLocked() != nil:
			return plain(err)
		case errors.As(err, &busy):
			wait = max(wait, min(busy.after, maxPause), pause)
		default:
			failed++
		}
		if failed == maxStalls {
			return plain(err)
		}
		select {
		case <-time.After(wait/2 + rand.N(wait/2+1)): // random, so that clients do not retry together
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
}

// busyError is the error if the server is busy and asks for a pause (429, 5xx).
type busyError struct {
	error
	after time.Duration
}

// plain returns err without the URL, which errors of net/http contain.
func plain(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("the server has sent nothing for %v", stall)
	}
	return err
}

// finalError is an error that no repeated request can remedy.
type finalError struct{ error }

// seekLocked makes the next read start at a file offset. A new range, if needed, has at least length bytes.
func (r *reader) seekLocked(at, length int64) error {
	switch {
	case r.body != nil && r.body.at == at:
		return nil
	case r.body != nil || at != r.next:
		r.rangeSize = minRange
	default:
		r.rangeSize = min(2*r.rangeSize, maxRange)
	}
	r.dropLocked()
	return r.openLocked(at, max(length, r.rangeSize))
}

func (r *reader) dropLocked() {
	if r.body != nil {
		r.next = r.body.at
		r.body.close()
		r.body = nil
	}
}

func (r *reader) openLocked(at, length int64) error {
	ctx, cancel := context.WithCancel(r.ctx)
	timer := time.AfterFunc(stall, cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url.String(), nil)
	if err != nil {
		timer.Stop()
		cancel()
		return &finalError{errors.New("the URL is malformed")}
	}
	request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, at+length-1))
	request.Header.Set("Accept-Encoding", "identity")
	answer, err := r.client.Do(request)
	if err != nil {
		timer.Stop()
		cancel()
		return err
	}
	b := &body{ReadCloser: answer.Body, at: at, end: at + length, cancel: cancel, timer: timer}
	tag := answer.Header.Get("ETag")
	if tag == "" {
		tag = answer.Header.Get("Last-Modified")
	}
	switch code := answer.StatusCode; {
	case code == http.StatusPartialContent:
		size, err := sizeOf(answer.Header.Get("Content-Range"), at)
		if err != nil || r.size > 0 && (size != r.size || tag != r.tag) {
			b.close()
			if err == nil {
				err = errChanged
			}
			return &finalError{err}
		}
		b.end = min(b.end, size)
		r.size, r.tag, r.body = size, tag, b
		return nil
	case code == http.StatusOK && r.size == 0:
		return r.keepLocked(b)
	case code == http.StatusOK:
		b.close()
		return &finalError{errChanged}
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		b.close()
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // 0 if the header is absent or a date
		return &busyError{fmt.Errorf("the server answered %s", answer.Status), time.Duration(seconds) * time.Second}
	case code == http.StatusNotFound:
		b.close()
		return &finalError{fmt.Errorf("the server answered %s: %w", answer.Status, fs.ErrNotExist)}
	default:
		b.close()
		return &finalError{fmt.Errorf("the server answered %s", answer.Status)}
	}
}

// sizeOf returns the size of the whole file from a Content-Range, which must begin at the offset at.
func sizeOf(contentRange string, at int64) (int64, error) {
	part, whole, ok := strings.Cut(strings.TrimPrefix(contentRange, "bytes "), "/")
	first, _, _ := strings.Cut(part, "-")
	begin, err := strconv.ParseInt(first, 10, 64)
	size, sizeErr := strconv.ParseInt(whole, 10, 64)
	if !ok || err != nil || sizeErr != nil || begin != at || size <= at {
		return 0, fmt.Errorf("the server answered with the range %q, and was asked for what begins at %d", contentRange, at)
	}
	return size, nil
}

// keepLocked downloads the whole file, from a server without range requests, to a temporary file without a name.
func (r *reader) keepLocked(b *body) error {
	defer b.close()
	f, err := os.CreateTemp("", "larder-snapshot-*")
	if err != nil {
		return &finalError{err}
	}
	_ = os.Remove(f.Name()) // where an open file cannot be removed, Close removes it
	size, err := io.Copy(f, io.LimitReader(progress{b, r}, r.limit+1))
	r.received = max(r.received, size) // a retry downloads the same bytes again, which is no progress
	if err == nil && size > r.limit {
		err = &finalError{fmt.Errorf("the server sends more than %d bytes, and knows no ranges", r.limit)}
	}
	if err != nil {
		return errors.Join(err, discard(f))
	}
	r.whole, r.size = f, size
	return nil
}

type progress struct {
	body *body
	r    *reader
}

func (p progress) Read(data []byte) (int, error) {
	n, err := p.body.Read(data)
	if p.r.got += int64(n); n > 0 {
		p.body.timer.Reset(stall)
	}
	if slow := p.r.slowLocked(); slow != nil {
		return n, slow
	}
	return n, err
}

func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked()
	if r.whole == nil {
		return nil
	}
	return discard(r.whole)
}

func discard(f *os.File) error {
	err := f.Close()
	_ = os.Remove(f.Name()) // Remove fails if keepLocked has removed the file already.
	return err
}

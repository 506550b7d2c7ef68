package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/history"
)

// frames caches the newest encoded events of a collection, so that an event is encoded once for all watches with the
// same format. It is safe for concurrent use.
type frames struct {
	mu    sync.Mutex
	made  map[frameKey]*frame // guarded by mu, like the following
	order []frameKey          // oldest first
	bytes int
}

// framesBytes bounds the cached bytes, and frameOverhead is the memory of a frame besides its data, in bytes.
const (
	framesBytes   = 4 << 20
	frameOverhead = 256
)

// errEncodePanicked is returned to the other callers of get if encode panics.
var errEncodePanicked = errors.New("the event could not be encoded")

// frameKey identifies an encoded event.
type frameKey struct {
	event     *history.Event
	eventType watch.EventType
	of        format
	first     bool // of a Table: has the column definitions
	// second is the Unix time of a Table's ages; 0 for other forms.
	second int64
}

type frame struct {
	once sync.Once
	data []byte
	err  error
	size int // memory of the frame; 0 until it is encoded; guarded by frames.mu
}

func newFrames() *frames { return &frames{made: map[frameKey]*frame{}} }

// get returns the frame of an event. The first caller encodes it.
func (s *frames) get(key frameKey, encode func() ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	f := s.made[key]
	if f == nil {
		f = &frame{}
		s.made[key], s.order = f, append(s.order, key)
	}
	s.mu.Unlock()
	f.once.Do(func() {
		f.err = errEncodePanicked
		f.data, f.err = encode()
		s.added(key, f)
	})
	return f.data, f.err
}

// has reports whether the frame of an event is cached.
func (s *frames) has(key frameKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.made[key]
	return f != nil && f.size > 0
}

// added counts a new frame, unless it was evicted meanwhile, and evicts the oldest frames.
func (s *frames) added(key frameKey, f *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[key] != f {
		return
	}
	f.size = frameOverhead + len(f.data) + key.event.Size() // the frame may be the last reference to its event
	s.bytes += f.size
	for s.bytes > framesBytes && len(s.order) > 1 {
		s.bytes -= s.made[s.order[0]].size
		delete(s.made, s.order[0])
		s.order = s.order[1:]
	}
}

// frame returns an encoded event.
func (w *watcher) frame(eventType watch.EventType, e entry.Entry, first bool) ([]byte, error) {
	object, err := w.collection.item(w.format, e, true, time.Now())
	if err != nil {
		return nil, err
	}
	if w.format.form == table {
		if object, err = w.tableOf(object, e.ResourceVersion, first); err != nil {
			return nil, err
		}
	}
	return w.format.frame(eventType, object), nil
}

// tableOf returns a Table with one row, as a watch sends it.
func (w *watcher) tableOf(row []byte, rv string, first bool) ([]byte, error) {
	definitions := []byte("null")
	if first {
		var err error
		if definitions, err = json.Marshal(w.collection.columns.Definitions()); err != nil {
			return nil, err
		}
	}
	return fmt.Appendf(nil, `{"kind":"Table","apiVersion":"meta.k8s.io/%s","metadata":{"resourceVersion":%q},`+
		`"columnDefinitions":%s,"rows":[%s]}`, w.format.version, rv, definitions, row), nil
}

// frame wraps an encoded object in an event.
func (f format) frame(eventType watch.EventType, object []byte) []byte {
	if f.media == mediaProtobuf {
		return appendWatchFrame(nil, string(eventType), object)
	}
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", eventType, object)
}

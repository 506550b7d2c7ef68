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

// frames keeps the newest events of a collection as they were encoded, so that an event is encoded once for all who
// watch in the same format. It is safe for concurrent use.
type frames struct {
	mu    sync.Mutex
	made  map[frameKey]*frame // guarded by mu, like the following
	order []frameKey          // oldest first
	bytes int
}

// framesBytes bounds what frames holds, and frameOverhead is what a frame takes besides its bytes.
const (
	framesBytes   = 4 << 20
	frameOverhead = 256
)

// errUnmade is what others get if encoding an event panics.
var errUnmade = errors.New("the event could not be encoded")

// frameKey is an event as it is told to some.
type frameKey struct {
	event *history.Event
	told  watch.EventType
	of    format
	first bool // of a table: with the definitions of the columns
	// second is when a table was made, which has ages; 0 for others.
	second int64
}

type frame struct {
	once sync.Once
	data []byte
	err  error
	size int // of data once it is made; guarded by frames.mu
}

func newFrames() *frames { return &frames{made: map[frameKey]*frame{}} }

// get returns the frame of an event, which the first caller makes.
func (s *frames) get(key frameKey, encode func() ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	f := s.made[key]
	if f == nil {
		f = &frame{}
		s.made[key], s.order = f, append(s.order, key)
	}
	s.mu.Unlock()
	f.once.Do(func() {
		f.err = errUnmade
		f.data, f.err = encode()
		s.added(key, f)
	})
	return f.data, f.err
}

// has reports whether the frame of an event has been made.
func (s *frames) has(key frameKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.made[key]
	return f != nil && f.size > 0
}

// added counts a frame that has been made, unless it was let go meanwhile, and lets the oldest go.
func (s *frames) added(key frameKey, f *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[key] != f {
		return
	}
	f.size = frameOverhead + len(f.data) + key.event.Size() // the history may have let it go
	s.bytes += f.size
	for s.bytes > framesBytes && len(s.order) > 1 {
		s.bytes -= s.made[s.order[0]].size
		delete(s.made, s.order[0])
		s.order = s.order[1:]
	}
}

// frame encodes an event.
func (w *watcher) frame(told watch.EventType, e entry.Entry, first bool) ([]byte, error) {
	object, err := w.collection.item(w.format, e, true, time.Now())
	if err != nil {
		return nil, err
	}
	if w.format.form == table {
		if object, err = w.tableOf(object, e.ResourceVersion, first); err != nil {
			return nil, err
		}
	}
	return w.format.frame(told, object), nil
}

// tableOf is the Table with one row that a watch sends.
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

// frame puts an encoded object into an event.
func (f format) frame(told watch.EventType, object []byte) []byte {
	if f.media == mediaProtobuf {
		return appendWatchFrame(nil, string(told), object)
	}
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", told, object)
}

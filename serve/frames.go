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

// frames caches the newest watch events of a collection in encoded form, so that an event is encoded once for all
// watches with the same format. It is safe for concurrent use.
type frames struct {
	mu sync.Mutex
	// made has the encoded events. mu guards made, order and bytes.
	made  map[frameKey]*frame
	order []frameKey
	bytes int
}

// framesBytes bounds the size of the cached encoded events of a collection. frameOverhead is the memory of a cached
// event besides its encoded data, in bytes.
const (
	framesBytes   = 4 << 20
	frameOverhead = 256
)

// errEncodePanicked is the error for watches that wait for an event whose encoder panics in another watch.
var errEncodePanicked = errors.New("the event could not be encoded")

type frameKey struct {
	event     *history.Event
	eventType watch.EventType
	of        format
	// first is true if the event begins a Table watch: its row is sent with the column definitions.
	first bool
	// second is the Unix time at which the ages in a Table's row are computed; 0 for forms without ages.
	second int64
}

type frame struct {
	once sync.Once
	data []byte
	err  error
	// size is the memory of the encoded event; 0 until it is encoded. frames.mu guards size.
	size int
}

func newFrames() *frames { return &frames{made: map[frameKey]*frame{}} }

// get returns an encoded event from the cache. If the event is missing, the first caller encodes it, and concurrent
// callers wait for the result.
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

func (s *frames) has(key frameKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.made[key]
	return f != nil && f.size > 0
}

// added counts the memory of an encoded event, unless the event was evicted while it was encoded. It then evicts the
// oldest events that exceed framesBytes.
func (s *frames) added(key frameKey, f *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[key] != f {
		return
	}
	f.size = frameOverhead + len(f.data) + key.event.Size() // the cache may keep the event itself in memory
	s.bytes += f.size
	for s.bytes > framesBytes && len(s.order) > 1 {
		s.bytes -= s.made[s.order[0]].size
		delete(s.made, s.order[0])
		s.order = s.order[1:]
	}
}

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

// tableOf returns a Table with one row. Only the first Table of a watch has the column definitions.
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

func (f format) frame(eventType watch.EventType, object []byte) []byte {
	if f.media == mediaProtobuf {
		return appendWatchFrame(nil, string(eventType), object)
	}
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", eventType, object)
}

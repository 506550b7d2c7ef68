package serve

import (
	"bytes"
	"errors"
	"sync"

	"github.com/larder-dev/larder/entry"
)

func (w *watcher) write(frame []byte) {
	w.first = false
	w.gathered, w.size = append(w.gathered, frame), w.size+len(frame)
}

var errGone = errors.New("the client has gone")

// joined are buffers in which small encoded events are joined, to be sent in one write.
var joined = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, joinedBytes)) }}

func (w *watcher) flushFull() error {
	if w.size < joinedBytes {
		return nil
	}
	return w.flush()
}

// flush sends the gathered events to the client. It fails with errMemory if the memory budget has no memory for them,
// and with errGone if the client does not read.
func (w *watcher) flush() error {
	err := w.holdGathered()
	if err == nil {
		w.writeDeadline.extend()
		if w.send() != nil || w.socket == nil && w.writeDeadline.control.Flush() != nil {
			err = errGone
		}
	}
	clear(w.gathered)
	w.gathered, w.size = w.gathered[:0], 0
	if !w.initial {
		w.lease.release()
	}
	return err
}

// holdGathered acquires the memory of the events to be sent. They count in full even if other watches share them: a
// slow client keeps them after the other watches have sent them.
func (w *watcher) holdGathered() error {
	if w.initial || w.size <= unbudgetedBytes {
		return nil
	}
	return w.lease.resize(w.ctx, int64(w.size)+joinedBytes, memoryWait)
}

func (w *watcher) holdRendering(e entry.Entry) error {
	need := w.collection.renderer.memory(w.format, e)
	if need <= renderedFree {
		return nil
	}
	return w.lease.resize(w.ctx, need+int64(w.size), memoryWait)
}

// send writes the gathered events to the client. It joins small events into one write. Large events are written without
// a copy, since other watches share them.
func (w *watcher) send() error {
	if w.socket != nil {
		return w.sendMessages()
	}
	if len(w.gathered) == 1 {
		_, err := w.w.Write(w.gathered[0])
		return err
	}
	small := joined.Get().(*bytes.Buffer)
	defer func() {
		small.Reset()
		joined.Put(small)
	}()
	for i, frame := range w.gathered {
		if small.Len() > 0 && small.Len()+len(frame) > joinedBytes {
			if _, err := w.w.Write(small.Bytes()); err != nil {
				return err
			}
			small.Reset()
		}
		w.gathered[i] = nil
		if len(frame) <= joinedBytes {
			small.Write(frame)
		} else if _, err := w.w.Write(frame); err != nil {
			return err
		}
	}
	_, err := w.w.Write(small.Bytes())
	return err
}

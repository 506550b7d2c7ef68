package source

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// Names of WatchQuery's fields in the URL.
const (
	paramList  = "list"
	paramSince = "since"
)

func (q WatchQuery) values() url.Values {
	v := q.Query.values()
	if q.List {
		v.Set(paramList, "true")
	}
	if q.Since != nil {
		v.Set(paramSince, strconv.FormatUint(*q.Since, 10))
	}
	return v
}

func watchQueryOf(v url.Values) (WatchQuery, error) {
	q := WatchQuery{Query: queryOf(v), List: v.Get(paramList) == "true"}
	if s := v.Get(paramSince); s != "" {
		since, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return q, err
		}
		q.Since = &since
	}
	return q, nil
}

// watchLine is one line of an answer to pathWatch; exactly one field is set.
type watchLine struct {
	Event *wireEvent `json:"event,omitempty"`
	// Beat says that the sync is there, when there is nothing else to say.
	Beat  bool       `json:"beat,omitempty"`
	Error *errorBody `json:"error,omitempty"`
}

// wireEvent is an Event.
type wireEvent struct {
	Type   EventType       `json:"type"`
	Object json.RawMessage `json:"object,omitempty"`
	Seq    uint64          `json:"seq,omitempty"`
	Listed bool            `json:"listed,omitempty"`
}

func newWireEvent(e Event) (*wireEvent, error) {
	w := &wireEvent{Type: e.Type, Seq: e.Seq, Listed: e.Listed}
	if e.Object == nil {
		return w, nil
	}
	var err error
	w.Object, err = json.Marshal(e.Object.Object)
	return w, err
}

var errNoObject = errors.New("the sync has sent an event without an object")

func (w *wireEvent) event() (Event, error) {
	e := Event{Type: w.Type, Seq: w.Seq, Listed: w.Listed}
	switch {
	case e.Type == Bookmark:
		return e, nil
	case w.Object == nil:
		return e, errNoObject
	}
	e.Object = &unstructured.Unstructured{}
	return e, utiljson.Unmarshal(w.Object, &e.Object.Object)
}

// codes are the errors as they are sent. No error is two of them.
var codes = map[string]error{
	"notLive": ErrNotLive, "slow": ErrSlow, "stopping": ErrStopping, "replaced": ErrReplaced, "notKept": store.ErrNotKept,
	"unwatchable": errUnwatchable,
	"damaged":     entry.ErrDamaged, "sealed": seal.ErrSealed, "noSpace": store.ErrNoSpace,
}

// codeSince is that of a *store.SinceError.
const codeSince = "since"

// newErrorBody returns an error as it is sent.
func newErrorBody(err error) errorBody {
	b := errorBody{Error: err.Error()}
	if errors.As(err, &b.Since) {
		b.Code = codeSince
		return b
	}
	for code, is := range codes {
		if errors.Is(err, is) {
			b.Code = code
		}
	}
	return b
}

// known returns the error that was sent, if its kind is known here; else nil.
func (b errorBody) known() error {
	switch is := codes[b.Code]; {
	case b.Code == codeSince && b.Since != nil:
		return &wireError{message: b.Error, is: b.Since}
	case is != nil:
		return &wireError{message: b.Error, is: is}
	}
	return nil
}

// causeOr is why ctx has ended, or err if it has not.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

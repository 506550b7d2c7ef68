package snapshot

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

// writeBuffer is how much is written to a snapshot's file at a time.
const writeBuffer = 256 << 10

// progressEvery is after how many objects Progress is told.
const progressEvery = 256

// saving is one save at work.
type saving struct {
	o        SaveOptions
	src      Source // as it is, for its settler
	selected Source
	saved    Saved
	progress
}

// save writes a snapshot of all collections of src.
func save(ctx context.Context, src Source, w io.Writer, o SaveOptions) (Saved, error) {
	j := &saving{o: o, src: src, progress: progress{tell: o.Progress}}
	j.saved.LeftOut = slices.Clone(o.Header.LeftOut)
	told := o.Skipped
	o.SelectOptions.Skipped = func(id entry.Identity, key string) {
		j.saved.Skipped++
		if told != nil {
			told(id, key)
		}
	}
	if l, ok := src.(*liveSource); ok { // which reads all pages before it has the first record
		l.told = func(listed, left int) {
			j.ahead, j.now.TotalObjects = j.now.Objects+listed, j.now.Objects+listed+left
			j.report()
		}
	}
	var err error
	if j.selected, err = Select(src, o.SelectOptions); err != nil {
		return Saved{}, fmt.Errorf("save: %w", err)
	}
	if err := j.run(ctx, w); err != nil {
		return Saved{}, fmt.Errorf("save: %w", err)
	}
	return j.saved, nil
}

func (j *saving) run(ctx context.Context, w io.Writer) error {
	all, err := j.selected.Collections(ctx)
	if err != nil {
		return err
	}
	keep := all[:0]
	for _, c := range all {
		if why := j.leavesOut(c); why != "" {
			j.saved.LeftOut = append(j.saved.LeftOut, c.Identity.String()+": "+why)
			continue
		}
		keep = append(keep, c)
		j.now.TotalObjects += c.Objects
	}
	counted := &countingWriter{w: w}
	buffered := bufio.NewWriterSize(counted, writeBuffer)
	out, err := NewWriter(buffered, j.header(keep), WriterOptions{Recipients: j.o.Recipients})
	if err != nil {
		return err
	}
	j.report()
	for _, c := range keep {
		if err := j.collection(ctx, out, c); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	err = buffered.Flush()
	j.saved.Objects, j.saved.Bytes, j.saved.Size = j.now.Objects, j.now.Bytes, counted.n
	return err
}

// header is that of the snapshot of these collections.
func (j *saving) header(all []Collection) Header {
	h := j.o.Header
	j.o.Describe(&h)
	h.TakenAt, h.LeftOut = j.o.now(), j.saved.LeftOut
	if h.ClusterID == "" {
		h.ClusterID = clusterOf(all)
	}
	return h
}

// clusterOf returns the id of the cluster that all are of, as far as it is known.
func clusterOf(all []Collection) (id string) {
	for _, c := range all {
		switch one := c.Attributes.ClusterID; {
		case one == "" || one == id:
		case id != "":
			return ""
		default:
			id = one
		}
	}
	return id
}

var secrets = schema.GroupResource{Resource: "secrets"}

// leavesOut returns why a collection is not written, or "".
func (j *saving) leavesOut(c Collection) string {
	if len(j.o.Recipients) > 0 || j.o.Secrets {
		return ""
	}
	if why := c.Confidential(); why != "" {
		return why + ", the snapshot is not encrypted, and they were not asked for in plain text"
	}
	return ""
}

// collection writes one.
func (j *saving) collection(ctx context.Context, out *Writer, c Collection) error {
	if err := out.Begin(c); err != nil {
		return err
	}
	j.now.Collection = c.Identity
	skipped := j.saved.Skipped
	err := j.selected.Records(ctx, c.Identity, "", func(r entry.Entry) error {
		j.done(r)
		return out.Add(r)
	})
	if err != nil {
		return err
	}
	as := c.State()
	if s, ok := j.src.(settler); ok {
		as = s.settle(c)
	}
	if err := out.EndWith(as.without(j.saved.Skipped - skipped)); err != nil {
		return err
	}
	j.saved.Collections = append(j.saved.Collections, out.current)
	j.report()
	return nil
}

// progress counts what is done, and tells.
type progress struct {
	tell func(Progress)
	now  Progress
	// ahead is how many objects have been read, if that is more than those that are done.
	ahead int
}

func (p *progress) done(r entry.Entry) {
	p.now.Objects++
	p.now.Bytes += int64(len(r.Payload))
	if p.now.Objects%progressEvery == 0 {
		p.report()
	}
}

func (p *progress) report() {
	if p.tell != nil {
		told := p.now
		told.Objects = max(told.Objects, p.ahead)
		p.tell(told)
	}
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// salvager goes through a file and finds the frames that are whole.
type salvager struct {
	file   *File
	in     *window
	unpack *unpacker
	report SalvageReport

	// next is the number of the frame that should come next.
	next uint32
	lost *Loss // what is being passed over
	tail bool  // it was found
	// refs is how many collections the tail names.
	refs int
	vain int64 // bytes of heads that were none

	byNumber map[uint64]*salvaged
	order    []*salvaged
	open     *salvaged // whose frames come now
}

// begin reads the prologue.
func (s *salvager) begin(known map[uint32]format) error {
	if known == nil {
		known = formats()
	}
	data, err := s.in.peek(prologueMax)
	if err != nil && !errors.Is(err, io.EOF) {
		return &DamageError{Block: -1, Reason: "its first bytes can not be read", Err: err}
	}
	p, size, err := parsePrologue(data, known)
	if err != nil {
		return err
	}
	s.file.id, s.file.format, s.file.manifest.Format = p.id, known[p.version], p.version
	s.file.manifest.Larder = p.larder
	s.in.skip(size)
	return nil
}

// run goes through all frames.
func (s *salvager) run(ctx context.Context) error {
	for !s.tail {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := place{id: s.file.id, offset: uint64(s.in.offset), number: int64(s.next)}
		if s.lost != nil {
			p.number = -1
		}
		f, err := readFrame(s.in, p, s.unpack)
		if err == nil {
			s.regain(f)
			s.take(f)
			continue
		}
		var d *DamageError
		if !errors.As(err, &d) {
			return err
		}
		s.lose(d)
		if !s.pass(f) {
			break
		}
	}
	s.end()
	return nil
}

// pass goes past what is damaged, to where the next frame may begin, and says whether there is such a place. f is the frame here as far as its head is what was
// written: then its size is trusted. So every byte of a file is in one frame at most and is hashed once, however many of them somebody has put into one another.
func (s *salvager) pass(f frame) bool {
	if f.offset == 0 { // none has that: the prologue is there
		return s.affords() && s.resync()
	}
	data, err := s.in.peek(f.total())
	s.in.skip(len(data))
	return err == nil
}

// affords counts what was hashed of a head that is none, and says whether to go on. A file that was not made to take time has not as much of them as it is large.
func (s *salvager) affords() bool {
	data, _ := s.in.peek(fixedSize)
	if h, wrong := parseFixed(data); wrong == "" {
		s.vain += int64(h.headSize)
	}
	if s.vain <= 4*s.file.size+maxBody {
		return true
	}
	s.lost.Reason += "; so much of what follows looks like the beginnings of blocks, and is none, that it was not searched"
	return false
}

// lose begins a loss, unless one is being passed over.
func (s *salvager) lose(d *DamageError) {
	if s.lost != nil {
		return
	}
	s.lost = &Loss{DamageError: *d}
	if s.open != nil {
		s.lost.Collection = s.open.name()
	}
}

// regain ends a loss at f, which is whole.
func (s *salvager) regain(f frame) {
	if s.lost != nil {
		s.lost.Length = int64(f.offset) - s.lost.Offset
		s.lost.Blocks = int(f.number) - int(s.next)
		s.report.Losses = append(s.report.Losses, *s.lost)
		s.lost = nil
	}
	s.next = f.number + 1
}

// resync goes to the next place behind this one where a frame may begin, and says whether there is one.
func (s *salvager) resync() bool {
	start := append([]byte(marker), s.file.id[:]...)
	for skip := 1; ; skip = 0 {
		data, err := s.in.peek(skip + windowSize)
		skip = min(skip, len(data))
		if at := bytes.Index(data[skip:], start); at >= 0 {
			s.in.skip(skip + at)
			return true
		}
		if err != nil {
			s.in.skip(len(data))
			return false
		}
		s.in.skip(len(data) - len(start) + 1)
	}
}

// take notes what a frame says.
func (s *salvager) take(f frame) {
	var wrong string
	switch f.kind {
	case kindManifest:
		if h, err := s.file.format.header(f.body); err == nil {
			s.file.manifest.Header = h
		} else {
			wrong = "the manifest can not be read: " + textError(err)
		}
	case kindCollection, kindEnd:
		wrong = s.describe(f)
	case kindBlock:
		wrong = s.block(f)
	case kindTail:
		s.tail = true
		if len(f.head) == digestSize {
			s.file.manifest.Digest = [digestSize]byte(f.head)
		}
		if _, refs, ok := parseTail(f.body, f.offset); ok {
			s.refs = len(refs)
		} else {
			wrong = "the index can not be read"
		}
	}
	if wrong != "" {
		s.report.Losses = append(s.report.Losses, Loss{
			DamageError: DamageError{Block: int(f.number), Offset: int64(f.offset), Reason: wrong}, Length: int64(f.total()), Blocks: 1,
		})
	}
}

// end notes what the file lacks at its end.
func (s *salvager) end() {
	if s.lost != nil {
		s.lost.Length, s.lost.Blocks = s.file.size-s.lost.Offset, -1
		s.report.Losses = append(s.report.Losses, *s.lost)
		return
	}
	at := s.in.offset
	data, _ := s.in.peek(footerSize + 1)
	if _, ok := parseFooter(data); !ok {
		s.report.Losses = append(s.report.Losses, Loss{
			DamageError: DamageError{Block: -1, Offset: at, Reason: "its last bytes are missing or not what was written"}, Length: int64(len(data)),
		})
	}
}

// of returns the collection of a number.
func (s *salvager) of(number uint64) *salvaged {
	c := s.byNumber[number]
	if c == nil {
		c = &salvaged{number: number}
		s.byNumber[number] = c
		s.order = append(s.order, c)
	}
	return c
}

package check

import (
	"context"
	"time"
)

// pace limits the rate of a reader.
type pace struct {
	rate int // bytes a second; 0 is no limit
	read int // bytes read since the last pause
}

func newPace(rate int) *pace { return &pace{rate: rate} }

// wait is called after bytes have been read. It pauses rarely, for at least 50 ms, and fails if ctx ends meanwhile.
func (p *pace) wait(ctx context.Context, bytes int) error {
	if p.rate == 0 {
		return nil
	}
	p.read += bytes
	pause := time.Second * time.Duration(p.read) / time.Duration(p.rate)
	if pause < 50*time.Millisecond {
		return nil
	}
	p.read = 0
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

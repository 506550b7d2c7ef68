package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/larder-dev/larder/internal/columns"
)

func Counted(n int, noun string) string { return CountedAs(n, noun, noun+"s") }

// CountedAs returns n followed by a noun: one if n is 1, and more otherwise.
func CountedAs(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func CountedObjects(n int) string { return Counted(n, "object") }

func Within(objects, collections int) string {
	return fmt.Sprintf("%s in %s", CountedObjects(objects), Counted(collections, "collection"))
}

func PrintJSON(s IO, v any) error {
	enc := json.NewEncoder(s.Out)
	enc.SetIndent("", "    ")
	return enc.Encode(v)
}

func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func Size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), 0
	for v >= 1000 && unit < 3 {
		v /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[unit])
}

// AgeOf returns the time since t in kubectl's format. A time in the future, after a clock was set back, has the age 0.
func AgeOf(now, t time.Time) string { return columns.Age(now, t) }

// Flushed flushes out and joins the error of the flush to err, unless err already contains that error.
func Flushed(err error, out *bufio.Writer) error {
	if last := out.Flush(); last != nil && !errors.Is(err, last) {
		return errors.Join(err, last)
	}
	return err
}

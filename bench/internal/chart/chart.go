// Package chart holds what the pictures of the documentation have in common: their size, their font and their legend.
//
// A picture is as wide as a page of GitHub shows it without scaling, and still legible at half of that, on a phone. Its
// background is white, so that it reads the same on a dark page. Text is in the reader's own sans-serif font.
package chart

import (
	"bytes"
	"image/color"
	"os"
	"regexp"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	// Width is that of every picture.
	Width = 560 * vg.Length(1)
	// FontSize is that of all text but titles.
	FontSize = 12 * vg.Length(1)
	// TitleSize is that of titles.
	TitleSize = 14 * vg.Length(1)
	// LegendHeight is the room for a legend in one line.
	LegendHeight = 24 * vg.Length(1)
)

// sans has the metrics of Helvetica and Arial, in one of which, or in a font like them, readers see the text.
var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

// fontFamily is what gonum writes, which is a font that few readers have.
var fontFamily = regexp.MustCompile(`font-family:[^;"]*`)

// New returns a plot in the common style, without axes' labels.
func New() *plot.Plot {
	p := plot.New()
	p.Title.TextStyle.Font = font.Font{Typeface: sans.Typeface, Variant: sans.Variant, Size: TitleSize}
	p.Title.Padding = 6
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = font.Font{Typeface: sans.Typeface, Variant: sans.Variant, Size: FontSize}
		axis.Tick.Label.Font = axis.Label.TextStyle.Font
	}
	return p
}

// Text is the style of text at the left of a point.
func Text() text.Style {
	return text.Style{
		Color: color.Black, Handler: plot.DefaultTextHandler,
		Font: font.Font{Typeface: sans.Typeface, Variant: sans.Variant, Size: FontSize},
	}
}

// Item is one entry of a legend.
type Item struct {
	Name  string
	Color color.Color
	// Shape is drawn before the name; nil is a box.
	Shape draw.GlyphDrawer
}

// Legend draws the items side by side into c, from its left edge, and begins another line where one is full. It returns
// how high they are; with draw false nothing is drawn.
func Legend(c draw.Canvas, items []Item, paint bool) vg.Length {
	const gap, mark = 16, 16
	style := Text()
	x, y := c.Min.X, c.Max.Y-LegendHeight/2
	for _, item := range items {
		wide := mark + style.Width(item.Name)
		if x > c.Min.X && x+wide > c.Max.X {
			x, y = c.Min.X, y-LegendHeight
		}
		if paint {
			shape := item.Shape
			if shape == nil {
				shape = draw.BoxGlyph{}
			}
			c.DrawGlyph(draw.GlyphStyle{Color: item.Color, Radius: 4.5, Shape: shape}, vg.Point{X: x + mark/3, Y: y})
			c.FillText(style, vg.Point{X: x + mark, Y: y - FontSize/3}, item.Name)
		}
		x += wide + gap
	}
	return c.Max.Y - y + LegendHeight/2
}

// Write draws a picture of that height into a file.
func Write(path string, height vg.Length, paint func(draw.Canvas) error) error {
	canvas := vgsvg.New(Width, height)
	c := draw.New(canvas)
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	if err := paint(c); err != nil {
		return err
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	svg := fontFamily.ReplaceAll(out.Bytes(), []byte("font-family:Helvetica,Arial,sans-serif"))
	return os.WriteFile(path, svg, 0o644)
}

// Package chart is the common style of pictures in the documentation: size, font and legend.
//
// GitHub shows a picture of this width without scaling, and a phone shows it at half the width, still readable. The
// background is white; a browser that prefers dark pages inverts the picture. Text uses the reader's sans-serif font.
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
	// Width of every picture.
	Width = 560 * vg.Length(1)
	// FontSize is the size of all text except titles.
	FontSize = 12 * vg.Length(1)
	// TitleSize is the size of titles.
	TitleSize = 14 * vg.Length(1)

	legendLine = 24 * vg.Length(1)
)

// fontFamily matches the font name in SVG files written by gonum. Write replaces that font, because few readers have
// it.
var fontFamily = regexp.MustCompile(`font-family:[^;"]*`)

// sans returns a font with the metrics of Helvetica and Arial, in which readers see the text.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// New returns a plot in the common style, without axis labels.
func New() *plot.Plot {
	p := plot.New()
	p.Title.TextStyle.Font = sans(TitleSize)
	p.Title.Padding = 6
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font, axis.Tick.Label.Font = sans(FontSize), sans(FontSize)
	}
	return p
}

// Text returns the style of left-aligned text that begins at a point.
func Text(size vg.Length) text.Style {
	return text.Style{Color: color.Black, Handler: plot.DefaultTextHandler, Font: sans(size)}
}

// Item is one entry of a legend.
type Item struct {
	Name  string
	Color color.Color
}

// LegendHeight returns the height of a legend in a picture with the margin on both sides.
func LegendHeight(items []Item, margin vg.Length) vg.Length {
	return layOut(Width-2*margin, items, func(Item, vg.Point) {})
}

// Legend draws the items side by side into c, from the upper left corner of c, in as many lines as needed.
func Legend(c draw.Canvas, items []Item) {
	layOut(c.Max.X-c.Min.X, items, func(item Item, at vg.Point) {
		at = at.Add(vg.Point{X: c.Min.X, Y: c.Max.Y})
		glyph := draw.GlyphStyle{Color: item.Color, Radius: 4.5, Shape: draw.BoxGlyph{}}
		c.DrawGlyph(glyph, at.Add(vg.Point{X: legendMark / 3}))
		c.FillText(Text(FontSize), at.Add(vg.Point{X: legendMark, Y: -FontSize / 3}), item.Name)
	})
}

const legendMark = 16

// layOut calls place with the position of each item, from the upper left corner of a legend. It returns the height of
// the legend.
func layOut(width vg.Length, items []Item, place func(Item, vg.Point)) vg.Length {
	const gap = 16
	at := vg.Point{Y: -legendLine / 2}
	for _, item := range items {
		wide := legendMark + Text(FontSize).Width(item.Name)
		if at.X > 0 && at.X+wide > width {
			at = vg.Point{Y: at.Y - legendLine}
		}
		place(item, at)
		at.X += wide + gap
	}
	return legendLine/2 - at.Y
}

var svgTag = regexp.MustCompile(`<svg\b[^>]*>`)

// dark is a CSS rule in each picture: if the reader's browser prefers dark pages, the rule inverts brightness and keeps
// hues.
const dark = `<style>@media (prefers-color-scheme: dark) { svg { filter: invert(.9) hue-rotate(180deg) } }</style>`

// Write draws a picture of this height into an SVG file.
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
	return os.WriteFile(path, svgTag.ReplaceAll(svg, []byte("$0\n"+dark)), 0o644)
}

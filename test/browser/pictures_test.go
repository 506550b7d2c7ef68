package browser

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var updateDocs = flag.Bool("docs.update", false, "write the pictures of docs/page.md")

const largestPicture = 150_000

// TestPictures takes the screenshots of docs/page.md. Only -docs.update writes them to docs/img.
func TestPictures(t *testing.T) {
	p := snapshots(t)
	compared := serve(t, "--from", p.tuesday, "--compare", p.monday)
	tb := newTab(t)
	tb.emulate("light", 1000, 420)
	tb.open(mirrorPage(), "configmaps")
	tb.picture("page-state")
	tb.do(chromedp.Click(`a[href^="#/objects/_/v1/pods"]`))
	tb.shows("prometheus-")
	tb.picture("page-objects")
	tb.do(chromedp.Click(`a[href*="web-302fd"]`))
	tb.shows("managedFields")
	tb.emulate("dark", 1000, 520)
	tb.picture("page-object-dark")
	tb.emulate("light", 1000, 620)
	tb.open(compared, "configmaps")
	tb.do(chromedp.Click(`nav a[href="#/compare"]`))
	tb.shows("6 changed")
	tb.picture("page-compare")
	tb.emulate("light", 400, 700)
	tb.picture("page-narrow")
}

func (tb *tab) picture(name string) {
	tb.t.Helper()
	tb.do(blur)
	data, err := chromedp.Run(tb.ctx, chromedp.CaptureScreenshot())
	must(tb.t, err)
	if len(data) > largestPicture || len(data) < 5000 {
		tb.t.Errorf("%s has %d bytes", name, len(data))
	}
	if *updateDocs {
		must(tb.t, os.WriteFile(filepath.Join("..", "..", "docs", "img", name+".png"), data, 0o644))
	}
}

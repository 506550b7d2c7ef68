package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed static
var static embed.FS

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
}

// fileTime is the write deadline of a response with a static file.
const fileTime = 30 * time.Second

type file struct {
	data      []byte
	mime, tag string
}

var mimes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// Files returns a handler that serves GET and HEAD of / and of the files below /page/ without authentication, and
// passes all other requests to next. The files contain no data.
func Files(next http.Handler) http.Handler {
	files := map[string]file{}
	names, _ := fs.Glob(static, "static/*") // Glob fails only for an invalid pattern
	for _, name := range names {
		data, _ := static.ReadFile(name) // ReadFile cannot fail: the files are embedded in the program
		sum := sha256.Sum256(data)
		at := "/page/" + path.Base(name)
		if path.Base(name) == "index.html" {
			at = "/"
		}
		files[at] = file{data, mimes[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, known := files[r.URL.Path]
		if !known || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		// Test recorders do not support deadlines. The next request on the connection sets its own deadline.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(fileTime))
		secure(w.Header())
		w.Header().Set("Content-Type", f.mime)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", f.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
	})
}

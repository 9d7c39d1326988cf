package api

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/swaggest/swgui/v5/static"

	"tundish/internal/job"
)

// page is ours, so that it holds no inline script; what draws it is Swagger UI.
//
//go:embed docs/index.html docs/start.js
var page embed.FS

// pagePolicy lets the page load from, and talk to, this enqueuer alone. Swagger
// UI styles elements in place, and its icons are data.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsFolder is what people write for the page; it sends them there.
const docsFolder = "/docs/"

// asset is a file of the page, as it is stored.
type asset struct {
	kind   string // media type
	data   []byte
	zipped bool
}

// pageAssets are what the page refers to, by name.
func pageAssets() (map[string]asset, error) {
	assets := map[string]asset{}
	for name, from := range map[string]struct {
		fs         fs.FS
		path, kind string
	}{
		"index.html":           {page, "docs/index.html", "text/html; charset=utf-8"},
		"start.js":             {page, "docs/start.js", "text/javascript; charset=utf-8"},
		"favicon-32x32.png":    {static.FS, "favicon-32x32.png", "image/png"},
		"swagger-ui.css":       {static.FS, "swagger-ui.css.gz", "text/css; charset=utf-8"},
		"swagger-ui-bundle.js": {static.FS, "swagger-ui-bundle.js.gz", "text/javascript; charset=utf-8"},
	} {
		data, err := fs.ReadFile(from.fs, from.path)
		if err != nil {
			return nil, fmt.Errorf("page of the API: %w", err)
		}
		assets[name] = asset{from.kind, data, strings.HasSuffix(from.path, ".gz")}
	}
	return assets, nil
}

// serveDocs serves the page that shows openapi.json. It loads nothing from
// other hosts and, like the document, asks for no key.
func serveDocs(mux *http.ServeMux) error {
	assets, err := pageAssets()
	if err != nil {
		return err
	}
	mux.HandleFunc("GET /docs", func(w http.ResponseWriter, r *http.Request) { assets["index.html"].serve(w, r) })
	mux.HandleFunc("GET "+docsFolder+"{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "../docs") // relative: a proxy may have put us below a path of its own
		w.WriteHeader(http.StatusMovedPermanently)
	})
	mux.HandleFunc("GET /docs/{file}", func(w http.ResponseWriter, r *http.Request) {
		a, ok := assets[r.PathValue("file")]
		if !ok {
			newProblem(r.Context(), job.Errorf(job.CodeNotFound, "there is no such path")).write(w)
			return
		}
		w.Header().Set("Cache-Control", "max-age=3600")
		a.serve(w, r)
	})
	return nil
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	if !a.zipped {
		_, _ = w.Write(a.data) // the caller is gone if this fails
		return
	}
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(a.data)
		return
	}
	unzip, err := gzip.NewReader(bytes.NewReader(a.data))
	if err == nil {
		_, _ = io.Copy(w, unzip) //nolint:gosec // our own file
	}
}

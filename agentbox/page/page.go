package page

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed assets
var assets embed.FS

// The directory always has its README, so that a checkout without npm compiles.
//
//go:generate sh build.sh
//go:embed embedded
var embedded embed.FS

// security keeps the page to its own files and its own server, whatever text of a box it shows.
const security = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page; what npm brought is below /xterm/.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(below(assets, "assets")))
	mux.Handle("/xterm/", http.StripPrefix("/xterm/", http.FileServerFS(below(embedded, "embedded"))))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", security)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		mux.ServeHTTP(w, r)
	})
}

func below(from fs.FS, dir string) fs.FS {
	sub, err := fs.Sub(from, dir)
	if err != nil {
		panic(err) // the directory is embedded
	}
	return sub
}

// Package page embeds the page of `porthole web`: what `make build` made of src/ with esbuild. Without it, dist/ has
// only its README and the server says how to build it.
package page

import (
	"embed"
	"io/fs"
)

//go:embed dist
var dist embed.FS

// Files returns the files of the page; there is no index.html among them if it was not built.
func Files() (fs.FS, error) { return fs.Sub(dist, "dist") }

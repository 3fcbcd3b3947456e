package serve

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"
)

// notice is the page of who may not see the page, and of a program without one. Packages of templates would make the
// whole program larger (Makefile).
const notice = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,"><title>Porthole</title><main><h1>Porthole</h1><p>%s</p></main></html>
`

// refuse answers with a text: as a page to browsers that ask for one, else as JSON.
func refuse(w http.ResponseWriter, r *http.Request, code int, text string) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		answer(w, code, map[string]string{"error": text})
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintf(w, notice, html.EscapeString(text))
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

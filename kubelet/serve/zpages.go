package serve

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	flagz "k8s.io/apiserver/pkg/server/flagz/api/v1beta1"
	statusz "k8s.io/apiserver/pkg/server/statusz/api/v1beta1"
	"sigs.k8s.io/yaml"
)

// The pages /statusz and /flagz have the format of k8s.io/apiserver of 1.36.3 (packages server/statusz and
// server/flagz): a text for people, or an object of config.k8s.io for clients that ask for one. Its types are used
// here. Its handlers are not: they would link the API server's negotiation, encoders and metrics into the program.

// zWarning is upstream's text, with the names of the program and the page.
const (
	component = "kubelet"
	zWarning  = "\n%s %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n"
)

// zForm is a format of a page.
type zForm struct {
	media   string // text/plain, application/json or application/yaml
	version string // of the object in the group config.k8s.io; empty for text
}

// zForms returns the format that an Accept header prefers for a page of a kind. It returns false if the client accepts
// none of them.
func zForms(accept, kind string) (zForm, bool) {
	text := zForm{media: "text/plain"}
	if strings.TrimSpace(accept) == "" {
		return text, true
	}

	// A clause is a format that the client accepts, and how much.
	type clause struct {
		form    zForm
		quality float64
	}
	var known []clause
	for _, part := range strings.Split(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			quality = q
		}
		// Text must be asked for without parameters of an object, and an object with all of them.
		switch plain := params["g"] == "" && params["v"] == "" && params["as"] == ""; {
		case plain && slices.Contains([]string{"text/plain", "text/*", "*/*"}, media):
			known = append(known, clause{text, quality})
		case slices.Contains([]string{"application/json", "application/yaml"}, media) &&
			params["g"] == statusz.GroupName &&
			params["as"] == kind && slices.Contains([]string{"v1alpha1", "v1beta1"}, params["v"]):
			known = append(known, clause{zForm{media, params["v"]}, quality})
		}
	}

	// Of formats with equal quality the first one named wins.
	slices.SortStableFunc(known, func(a, b clause) int { return cmp.Compare(b.quality, a.quality) })
	if len(known) == 0 || known[0].quality <= 0 {
		return zForm{}, false
	}
	return known[0].form, true
}

// zPage answers with a page in the format that the client prefers: what text writes, or the object that object returns.
func zPage(w http.ResponseWriter, r *http.Request, kind string, text func(io.Writer),
	object func(metav1.TypeMeta) any) {
	form, ok := zForms(r.Header.Get("Accept"), kind)
	if !ok {
		http.Error(w,
			fmt.Sprintf(
				"only text/plain, and application/json or application/yaml with ;g=%s;v=v1beta1;as=%s, are served",
				statusz.GroupName, kind),
			http.StatusNotAcceptable)
		return
	}

	page := strings.ToLower(kind)
	if form.version == "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, zWarning, component, page)
		text(w)
		return
	}

	if form.version == "v1alpha1" { // the same fields
		w.Header().Set("Warning",
			`299 - "This version of the `+page+` endpoint is deprecated. Please use a newer version."`)
	}
	value := object(metav1.TypeMeta{Kind: kind, APIVersion: statusz.GroupName + "/" + form.version})
	if form.media == "application/json" {
		writeJSON(w, value)
		return
	}
	b, err := yaml.Marshal(value)
	if err != nil {
		http.Error(w, "encoding answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", form.media)
	_, _ = w.Write(b)
}

// statusPage shows the versions of this program, since when it runs, and which endpoints it has.
func (s *Server) statusPage(w http.ResponseWriter, r *http.Request) {
	up := int64(time.Since(began).Seconds())
	// The emulated version is the binary's without the patch.
	binary := strings.TrimPrefix(s.opts.Version, "v")
	emulated := binary
	if parts := strings.SplitN(binary, ".", 3); len(parts) == 3 {
		emulated = parts[0] + "." + parts[1]
	}
	paths := s.rootPaths()
	zPage(w, r, "Statusz", func(out io.Writer) {
		fmt.Fprintf(out,
			"\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
			began.Format(time.UnixDate), up/3600, up/60%60, up%60, runtime.Version(), binary, emulated,
			strings.Join(paths, " "))
	}, func(kind metav1.TypeMeta) any {
		return statusz.Statusz{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{Name: component},
			StartTime: metav1.NewTime(began), UptimeSeconds: up,
			GoVersion: runtime.Version(), BinaryVersion: binary, EmulationVersion: emulated, Paths: paths}
	})
}

// rootPaths returns the first elements of all endpoints' paths, sorted.
func (s *Server) rootPaths() []string {
	seen := map[string]bool{}
	for _, r := range s.routes() {
		path := r.pattern[strings.IndexByte(r.pattern, '/')+1:]
		if first, _, _ := strings.Cut(path, "/"); first != "" {
			seen["/"+first] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// flagPage shows all command line flags with their values, also those that were not given.
func (s *Server) flagPage(w http.ResponseWriter, r *http.Request) {
	flags := s.opts.Flags
	zPage(w, r, "Flagz", func(out io.Writer) {
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			fmt.Fprintf(out, "%s=%s\n", name, flags[name])
		}
	}, func(kind metav1.TypeMeta) any {
		return flagz.Flagz{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{Name: component}, Flags: flags}
	})
}

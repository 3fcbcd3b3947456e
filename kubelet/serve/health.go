package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/klog/v2"
)

// check is one part of the kubelet's health. Its name is upstream's (pkg/kubelet/server/server.go of 1.36.3).
type check struct {
	name string
	ask  func() error // nil means healthy
}

// checksOf returns those of /healthz. That requests are answered shows that the process runs, and that it logs: klog's
// writer cannot hang apart from who writes.
// A nil function means that the loop is healthy.
func checksOf(healthy func() error) []check {
	fine := func() error { return nil }
	loop := healthy
	if loop == nil {
		loop = fine
	}
	return []check{{"ping", fine}, {"log", fine}, {"syncloop", loop}}
}

// healthRoutes has each check on a path of its own as well, where the error is told.
func (s *Server) healthRoutes() []route {
	all := checksOf(s.opts.Healthy)
	routes := []route{{"GET /healthz", health("healthz", all, s.slis)}, {"GET /readyz", health("readyz", all, s.slis)}}
	for _, c := range all {
		routes = append(routes, route{"GET /healthz/" + c.name, func(w http.ResponseWriter, _ *http.Request) {
			if err := c.ask(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = w.Write([]byte("ok"))
		}})
	}
	return routes
}

// health answers for all checks together.
func health(name string, all []check, counts *slis) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		failed, text := judge(name, all, r.URL.Query(), counts)
		if len(failed) > 0 {
			klog.FromContext(r.Context()).V(2).Info("The kubelet is not healthy", "path", name, "failed", failed)
			http.Error(w, text, http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write([]byte(text))
	}
}

// judge carries out all checks but those that the query excludes, and returns what fails, and the answer in upstream's
// form (k8s.io/apiserver pkg/server/healthz): "ok", or one line for each check if the query has verbose or a check
// fails. Why one fails is not said there, because more callers may read this than the checks one by one.
func judge(name string, all []check, query url.Values, counts *slis) (failed []string, text string) {
	excluded := query["exclude"]
	// A name that no check has is told in the answer, and is no failure.
	unknown := slices.Clone(query["exclude"])
	var lines strings.Builder
	for _, c := range all {
		if slices.Contains(excluded, c.name) {
			unknown = slices.DeleteFunc(unknown, func(x string) bool { return x == c.name })
			fmt.Fprintf(&lines, "[+]%s excluded: ok\n", c.name)
			continue
		}
		err := c.ask()
		counts.observe(c.name, name, err)
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", c.name, err))
			fmt.Fprintf(&lines, "[-]%s failed: reason withheld\n", c.name)
			continue
		}
		fmt.Fprintf(&lines, "[+]%s ok\n", c.name)
	}

	if slices.Sort(unknown); len(unknown) > 0 {
		fmt.Fprintf(&lines, "warn: some health checks cannot be excluded: no matches for \"%s\"\n",
			strings.Join(slices.Compact(unknown), `","`))
	}
	switch {
	case len(failed) > 0:
		return failed, lines.String() + name + " check failed"
	case query.Has("verbose"):
		return nil, lines.String() + name + " check passed\n"
	}
	return nil, "ok"
}

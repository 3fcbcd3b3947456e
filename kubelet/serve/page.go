package serve

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"porthole.dev/porthole/kubelet/usage"
)

// writePage answers with the metrics of a registry and the series of cgroups, in Prometheus' text format. The latter
// are written one by one: as objects, those of a hundred pods would be ten megabytes for each scrape.
func writePage(w http.ResponseWriter, r *http.Request, from prometheus.Gatherer, groups []usage.Group, of []owner) {
	// Metrics that are few come from the registry; those of cgroups follow.
	found, err := from.Gather()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")

	var to io.Writer = w
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // fails for a level that is not known only
		defer func() { _ = z.Close() }()               // as with Flush
		to = z
	}
	page := bufio.NewWriter(to)
	defer func() { _ = page.Flush() }() // an error means that the client is gone

	for _, f := range found {
		if _, err := expfmt.MetricFamilyToText(page, f); err != nil {
			return
		}
	}
	for i := range families {
		families[i].write(page, groups, of)
	}
}

// write writes the series of one name.
// A family without any series has no heading either. Each value carries the time at which its
// cgroup was read.
func (f *family) write(page *bufio.Writer, groups []usage.Group, of []owner) {
	begun, kind := false, "gauge"
	if f.counter {
		kind = "counter"
	}
	// The buffer for digits is used for every number, which saves an allocation for each.
	var digits [32]byte

	for i := range groups {
		g := &groups[i]
		f.values(g, &of[i], func(value float64, labels ...string) {
			if !begun {
				begun = true
				page.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " " + kind + "\n")
			}
			page.WriteString(f.name)
			page.WriteByte('{')
			page.WriteString(of[i].labels)
			for n, v := range labels {
				page.WriteByte(',')
				page.WriteString(label(f.labels[n], v))
			}
			page.WriteString("} ")
			page.Write(strconv.AppendFloat(digits[:0], value, 'g', -1, 64))
			page.WriteByte(' ')
			page.Write(strconv.AppendInt(digits[:0], g.At.UnixMilli(), 10))
			page.WriteByte('\n')
		})
	}
}

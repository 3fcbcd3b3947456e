// Command lint is run by `go vet -vettool`, which keeps its results for packages that have not changed. It finds errors
// that nobody reads (errcheck) and log calls without a logger of the context (logcheck, Kubernetes' own). Code of tests
// may do both.
package main

import (
	"strings"

	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
	logcheck "sigs.k8s.io/logtools/logcheck/pkg"
)

func main() {
	logs, _ := logcheck.Analyser()
	unitchecker.Main(withoutTests(errcheck.Analyzer), withoutTests(logs))
}

// withoutTests has an analyzer report nothing about files of tests.
func withoutTests(a *analysis.Analyzer) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		outside := *pass
		outside.Report = func(d analysis.Diagnostic) {
			if !strings.HasSuffix(pass.Fset.Position(d.Pos).Filename, "_test.go") {
				pass.Report(d)
			}
		}
		return run(&outside)
	}
	return a
}

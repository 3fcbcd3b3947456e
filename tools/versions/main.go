// Command versions lists the modules that the repository's go.mod files ask for at different versions. A package that
// two families need at different versions, or whose imports differ, is compiled once for each: that is most of the
// time that a first build takes.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// apart are the modules that may differ, with the reason.
var apart = map[string]string{
	"github.com/Microsoft/hcsshim":         "containerd, ctr.exe and runhcs are built with the version that containerd asks for: ctr.exe does not compile with 0.15.0, and a dependency of its runhcs is not served",
	"github.com/containerd/containerd/api": "runhcs of that version does not compile with a newer one",
	"github.com/containerd/containerd/v2":  "as containerd/api",
	"github.com/Masterminds/semver/v3":     "Helm asks for a newer one than the conformance suite; one small package",
	"github.com/golang/groupcache":         "hcsshim asks for a newer one than the conformance suite; one small package",
	"github.com/onsi/ginkgo/v2":            "the conformance suite is built with the version that Kubernetes tests it with; ours only names it",
	"github.com/onsi/gomega":               "as ginkgo",
	"github.com/prometheus/client_golang":  "CoreDNS needs a newer one; few packages depend on it",
	"github.com/prometheus/common":         "as client_golang",
	"github.com/prometheus/procfs":         "as client_golang",
	"go.etcd.io/etcd/api/v3":               "flannel asks for a newer one than the etcd that stores the cluster's data; flanneld uses it only without an API server",
	"go.etcd.io/etcd/client/pkg/v3":        "as etcd/api",
	"go.etcd.io/etcd/client/v3":            "as etcd/api",
	"go.etcd.io/bbolt":                     "etcd keeps the version that it was released with: it stores the cluster's data",
}

// alone are the families whose modules are not compared, with the reason.
var alone = map[string]string{
	"bundle/csi":     "each of its three programs asks for newer versions of some modules than Kubernetes; only `make conformance SUITE=storage-csi` builds them",
	"bundle/nerdctl": "1.7.7 is the newest that the module proxy serves, and does not compile with newer versions of containerd's and Docker's modules; only `make test-runtime` builds it",
	"bundle/runc":    "it alone is built with a C compiler, and so shares no compiled package with the others",
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	ok, err := run(os.Stdout, root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "versions:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run reports whether all go.mod files below root ask for the same versions, and prints those that differ.
func run(out io.Writer, root string) (ok bool, err error) {
	files, err := modFiles(root)
	if err != nil {
		return false, err
	}
	byModule := map[string]map[string][]string{} // module, version, folders
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return false, err
		}
		if alone[filepath.ToSlash(folder)] != "" {
			continue
		}
		for module, version := range requirements(string(data)) {
			if byModule[module] == nil {
				byModule[module] = map[string][]string{}
			}
			byModule[module][version] = append(byModule[module][version], filepath.ToSlash(folder))
		}
	}

	ok = true
	for _, module := range slices.Sorted(maps.Keys(byModule)) {
		versions := byModule[module]
		if len(versions) == 1 || apart[module] != "" {
			continue
		}
		ok = false
		fmt.Fprintf(out, "%s differs:\n", module)
		for _, v := range slices.Sorted(maps.Keys(versions)) {
			fmt.Fprintf(out, "\t%s in %s\n", v, strings.Join(versions[v], ", "))
		}
	}
	if !ok {
		fmt.Fprintln(out, "in the folders with the lower version: go mod edit -require=MODULE@VERSION && go mod tidy")
	}
	return ok, nil
}

// modFiles returns the go.mod files of the module itself and of the families of third-party programs.
func modFiles(root string) ([]string, error) {
	var files []string
	for _, pattern := range []string{"go.mod", "bundle/*/go.mod", "test/conformance/*/go.mod"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

var (
	requirement = regexp.MustCompile(`(?m)^\s*(?:require )?([a-z0-9.-]+\.[a-z]+/?\S*) (v\S+)(?: // indirect)?$`)
	exclusion   = regexp.MustCompile(`(?m)^exclude \([^)]*\)$|^exclude .*$`)
	replacement = regexp.MustCompile(`(?m)^\s*(?:replace )?(\S+) => \S+ (v\S+)$`)
)

// requirements returns the version of each module that a go.mod file asks for, after its replacements.
func requirements(text string) map[string]string {
	versions := map[string]string{}
	text = exclusion.ReplaceAllString(text, "")
	for _, m := range requirement.FindAllStringSubmatch(text, -1) {
		versions[m[1]] = m[2]
	}
	for _, m := range replacement.FindAllStringSubmatch(text, -1) {
		if versions[m[1]] != "" {
			versions[m[1]] = m[2]
		}
	}
	return versions
}

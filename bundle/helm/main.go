// Command helm-template renders a chart with Helm's own code, as `helm template NAME CHART --kube-version VERSION -f
// VALUES` does: values over the chart's, its schema and constraints, then the engine. Tests compare the objects with
// those of `porthole manifests`. All of Helm would bring kubectl.
package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: helm-template CHART VERSION-OF-KUBERNETES < VALUES")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "helm-template:", err)
		os.Exit(1)
	}
}

func run(folder, version string, in io.Reader, out io.Writer) error {
	chart, err := loader.Load(folder)
	if err != nil {
		return err
	}
	if err := chart.Validate(); err != nil {
		return err
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	values, err := chartutil.ReadValues(text)
	if err != nil {
		return err
	}

	capabilities := chartutil.DefaultCapabilities.Copy()
	kube, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		return err
	}
	capabilities.KubeVersion = *kube
	if want := chart.Metadata.KubeVersion; want != "" &&
		!chartutil.IsCompatibleRange(want, capabilities.KubeVersion.Version) {
		return fmt.Errorf("the chart is for Kubernetes %s, and the cluster has %s", want, version)
	}
	all, err := chartutil.ToRenderValues(chart, values,
		chartutil.ReleaseOptions{Name: "porthole", Namespace: "kube-system", Revision: 1, IsInstall: true},
		capabilities)
	if err != nil {
		return err
	}
	rendered, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return err
	}

	var names []string
	for name := range rendered {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if base := path.Base(name); strings.HasPrefix(base, "_") || path.Ext(base) == ".txt" ||
			strings.TrimSpace(rendered[name]) == "" {
			continue
		}
		fmt.Fprintf(out, "---\n# Source: %s\n%s\n", name, rendered[name])
	}
	return nil
}

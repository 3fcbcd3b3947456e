// Package manifests are the objects that a local cluster gives to its API server: those that each cluster has, those
// that joining machines need, with bootstrap tokens, and the pods of the test of the data path.
package manifests

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"os/exec"
	"strings"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
)

//go:embed base.yaml
var baseManifest string

//go:embed metrics.yaml
var metricsManifest string

// Check are the pods that test the data path, and their service.
//
//go:embed check.yaml
var Check string

// Base returns the objects that every cluster has. caPEM is the certificate of the cluster's authority.
func Base(caPEM []byte) string { return baseManifest + "---\n" + metricsObjects(caPEM) }

// metricsObjects returns the objects by which the API server and users find metrics-server, with its rights.
func metricsObjects(caPEM []byte) string {
	return strings.NewReplacer(
		"$CA_BUNDLE", base64.StdEncoding.EncodeToString(caPEM),
		"$ADDRESS", config.ControlPlane().String(),
		"$PORT", fmt.Sprint(config.MetricsPort),
	).Replace(metricsManifest)
}

// Apply gives a manifest to the API server, by the bundled kubectl.
func Apply(ctx context.Context, l layout.Layout, manifest string) error {
	cmd := exec.CommandContext(ctx, l.Bundled("kube"), "kubectl", "--kubeconfig", l.Kubeconfig(), "apply",
		"--server-side", "--force-conflicts", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("applying manifests: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

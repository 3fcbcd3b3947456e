package config

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// gatesText has each feature gate that upstream's kubelet 1.36.3 knows, with its default: what GetAll of its gates
// returns.
//
//go:embed gates.txt
var gatesText string

// gate is a feature gate of upstream's.
type gate struct{ on, locked bool }

// gates returns upstream's feature gates by name.
var gates = sync.OnceValue(func() map[string]gate {
	out := map[string]gate{}
	for line := range strings.Lines(gatesText) {
		words := strings.Fields(line)
		out[words[0]] = gate{on: words[1] == "on", locked: len(words) > 2}
	}
	return out
})

// switched are the gates that a feature of this kubelet depends on.
var switched = []string{"ClusterTrustBundleProjection", "DisableCPUQuotaWithExclusiveCPUs", "PodCertificateRequest",
	"ResourceHealthStatus",
	"ResourceHealthStatusMessage"}

// On reports whether a feature gate is on: as somebody has set it, or else by its default.
func On(set map[string]bool, name string) bool {
	if on, is := set[name]; is {
		return on
	}
	return gates()[name].on
}

// checkGates checks the feature gates, as upstream's kubelet does: an unknown one and another value of a locked one
// are mistakes. But for those in switched, a feature is there or not, by its default, whatever its gate says; what
// that means for a gate that somebody has set is a warning.
func checkGates(k *checker, set map[string]bool) (warnings []string) {
	var names []string
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)

	for _, name := range names {
		g, known := gates()[name]
		on := set[name]
		switch {
		case name == "AllAlpha" || name == "AllBeta":
			warnings = append(warnings,
				fmt.Sprintf("featureGates.%s: without effect: each feature is as by its default", name))
		case !known:
			k.errs = append(k.errs, fmt.Errorf("unrecognized feature gate: %s", name))
		case g.locked && on != g.on:
			k.errs = append(k.errs, fmt.Errorf("cannot set feature gate %v to %v, feature is locked to %v", name, on,
				g.on))
		case on != g.on && !slices.Contains(switched, name):
			warnings = append(warnings,
				fmt.Sprintf("featureGates.%s: without effect: the feature is as by its default, %v", name, g.on))
		}
	}
	return warnings
}

// DeclaredFeatures are the features of the list in the API that this kubelet has: the scheduler places pods that need
// one, and the API server accepts changes that need one, only on nodes that declare it
// (k8s.io/component-helpers/nodedeclaredfeatures).
var DeclaredFeatures = []string{"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling",
	"InPlacePodVerticalScalingInitContainers",
	"RestartAllContainersOnContainerExits"}

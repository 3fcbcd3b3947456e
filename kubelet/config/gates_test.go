package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/component-helpers/nodedeclaredfeatures/features"
)

func TestGates(t *testing.T) {
	if n := len(gates()); n != 240 || !gates()["RestartAllContainersOnContainerExits"].on || gates()["EventedPLEG"].on {
		t.Fatalf("%d gates", n)
	}
	for text, want := range map[string]struct {
		set  map[string]bool
		warn bool
	}{
		"": {map[string]bool{"EventedPLEG": false, "NodeSwap": true, "ClusterTrustBundleProjection": true,
			"DynamicResourceAllocation": true}, false},
		"unrecognized feature gate: NoSuchFeature": {
			map[string]bool{"NoSuchFeature": false, "NodeSwap": true}, false},
		"cannot set feature gate SidecarContainers to false, feature is locked to true": {
			map[string]bool{"SidecarContainers": false}, false},
		"featureGates.EventedPLEG: without effect: the feature is as by its default, false": {
			map[string]bool{"EventedPLEG": true}, true},
		"featureGates.ContainerCheckpoint: without effect: the feature is as by its default, true": {
			map[string]bool{"ContainerCheckpoint": false}, true},
		"featureGates.AllAlpha: without effect: each feature is as by its default": {
			map[string]bool{"AllAlpha": true}, true},
	} {

		var k checker
		warnings := strings.Join(checkGates(&k, want.set), "\n")
		got := warnings
		if err := errors.Join(k.errs...); err != nil {
			got = err.Error()
		}
		if got != text || want.warn != (warnings != "") {
			t.Errorf("%v: %q, want %q", want.set, got, text)
		}
	}
}

// TestDeclaredFeatures: what is declared is in the API's list, in its order, and what is not declared has its reason
// here.
func TestDeclaredFeatures(t *testing.T) {
	without := map[string]string{
		"UserNamespacesHostNetworkSupport": "its gate is off: pods in the node's network with a user namespace of their own are not tested",
	}
	var want []string
	for _, f := range features.AllFeatures {
		if without[f.Name()] == "" {
			want = append(want, f.Name())
		}
	}
	slices.Sort(want)
	if !slices.Equal(want, DeclaredFeatures) {
		t.Errorf("declared are %v; the list has besides those with a reason %v", DeclaredFeatures, want)
	}
}

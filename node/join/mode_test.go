package join

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/join/preflight"
	"porthole.dev/porthole/node/routes"
)

// TestEachMode: --plan knows every mode of porthole-routes, and says of the same ones that they carry one family only.
func TestEachMode(t *testing.T) {
	f := preflight.Facts{System: "windows"}
	f.Cluster.PodSubnet, f.Cluster.Network.Known = "10.244.0.0/16,fd00::/48", true
	said := map[string]string{}
	for _, topology := range preflight.Topologies(&f) {
		said[topology.Name] = topology.Why
	}
	for _, mode := range routes.Modes() {
		why, known := said[mode]
		if one := strings.Contains(why, "it carries IPv4 only"); !known || one != (routes.CheckFamilies(mode) != nil) {
			t.Errorf("%s: known %v, --plan says %q, and porthole routes %v", mode, known, why,
				routes.CheckFamilies(mode))
		}
	}
}

func TestBGPConfig(t *testing.T) {
	dir := t.TempDir()
	given, copied := filepath.Join(dir, "bgp.yaml"), filepath.Join(dir, "copy.yaml")
	s := &Setup{Choices: Choices{Network: "bgp", BGPConfig: given}}
	if _, err := s.bgpConfig(copied); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	for path, text := range map[string]string{copied: "of the run before", given: "given"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if text, err := s.bgpConfig(copied); string(text) != "given" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Remove(given); err != nil {
		t.Fatal(err)
	}
	if text, err := s.bgpConfig(copied); string(text) != "of the run before" || err != nil {
		t.Errorf("after the user's file is gone: %q, %v", text, err)
	}
	s.Network = "tor"
	if _, err := s.bgpConfig(copied); err == nil ||
		!strings.Contains(err.Error(), "--bgp-config is for --network bgp") {
		t.Errorf("another mode: %v", err)
	}
}

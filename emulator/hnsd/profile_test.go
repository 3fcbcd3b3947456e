package hnsd

import (
	"slices"
	"testing"
)

// Row 1.06.
func TestProfiles(t *testing.T) {
	for name, want := range map[string]struct {
		version  string
		policies []string // of those below, the known ones
	}{
		"ws2019-old": {"9.2", []string{"HostRoute"}},
		"ws2019":     {"9.5", []string{"HostRoute", "L4Proxy"}},
		"win-19041":  {"11.10", []string{"HostRoute", "VxlanPort"}},
		"ws2022":     {"13.3", []string{"HostRoute", "VxlanPort", "L4Proxy", "SetPolicy"}},
		"ws-15.0":    {"15.0", []string{"HostRoute", "VxlanPort", "L4Proxy", "SetPolicy", "TierAcl", "NetworkACL"}},
		"ws2025-pre": {"15.4", []string{"HostRoute", "VxlanPort", "L4Proxy", "SetPolicy", "TierAcl", "NetworkACL"}},
		"ws2025":     {"15.5", []string{"HostRoute", "VxlanPort", "L4Proxy", "SetPolicy", "TierAcl", "NetworkACL"}},
	} {
		p, err := ProfileNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		var known []string
		for _, policy := range []string{"HostRoute", "VxlanPort", "L4Proxy", "SetPolicy", "TierAcl", "NetworkACL"} {
			if p.supports(policy) {
				known = append(known, policy)
			}
		}
		if p.Version.String() != want.version || !slices.Equal(known, want.policies) {
			t.Errorf("%s: %s %v, want %s %v", name, p.Version, known, want.version, want.policies)
		}
	}

	if _, err := ProfileNamed("ws2031"); err == nil {
		t.Error("an unknown profile was found")
	}
	if _, err := ProfileOf(0); err == nil {
		t.Error("a profile was found for no build")
	}
}

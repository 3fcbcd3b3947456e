package lab

import (
	"strings"
	"testing"
)

func TestCards(t *testing.T) {
	for text, want := range map[string]string{
		"10.98.0.5/24": "",
		"10.98.0.5/24,gateway=10.98.0.1,metric=10": "",
		"10.98.0.5":                      "is not an address with the length of its subnet",
		"10.98.0.5/24,via=10.98.0.1":     "known are gateway=ADDRESS and metric=N",
		"10.98.0.5/24,gateway=x":         `"gateway=x": `,
		"10.98.0.0/24":                   "must be an IPv4 address of a host",
		"fd00::5/64":                     "must be an IPv4 address of a host",
		"10.98.0.5/24,gateway=10.97.0.1": "must be another address in 10.98.0.0/24",
		"10.98.0.5/24,metric=10":         "needs a gateway",
		"10.99.0.5/25":                   "overlaps with 10.99.0.0/24",
		"10.244.7.5/24":                  "overlaps with 10.244.0.0/16",
	} {
		c, err := ParseCard(text)
		if err == nil {
			err = CheckCards([]Card{c})
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}

	two, _ := ParseCard("10.98.0.6/16")
	one, _ := ParseCard("10.98.0.5/24")
	if err := CheckCards([]Card{one, two}); err == nil || !strings.Contains(err.Error(), "overlaps with 10.98.0.0/24") {
		t.Errorf("two in one subnet: %v", err)
	}
}

package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		cidr string
		mask int
		want string // flags of the controller manager, or a part of the error
	}{
		{"", 0, "[--node-cidr-mask-size=24]"},
		{"10.32.0.0/14", 0, "[--node-cidr-mask-size=24]"},
		{"10.244.0.0/16", 26, "[--node-cidr-mask-size=26]"},
		{"10.244.0.0/24", 0, "[--node-cidr-mask-size=26]"},
		{"192.168.0.0/22", 0, "[--node-cidr-mask-size=24]"},
		{"10.244.0.0/16,fd00:10:244::/48", 0, "[--node-cidr-mask-size-ipv4=24 --node-cidr-mask-size-ipv6=64]"},
		{"10.244.0.0/16,fd00:10:244::/64", 25, "[--node-cidr-mask-size-ipv4=25 --node-cidr-mask-size-ipv6=66]"},
		{"172.16.0.0/12", 29, "at most 16 longer"},
		{"10.244.0.0/28", 0, "at most /29"},
		{"10.244.0.0/16", 17, "must be /18 or longer"},
		{"10.99.0.0/16", 0, "overlaps with 10.99.0.0/24"},
		{"10.96.128.0/20", 0, "overlaps with 10.96.0.0/16"},
		{"fd00:10:244::/48", 0, "must be a range of IPv4"},
		{"10.244.0.0/16,10.245.0.0/16", 0, "must be a range of IPv4"},
		{"10.244.0.0", 0, "must be a range of IPv4"},
	} {
		config := Default()
		config.PodCIDR, config.NodeMask = c.cidr, c.mask
		r, err := config.Ranges()

		got := fmt.Sprint(r.MaskFlags())
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || (err != nil) == strings.HasPrefix(c.want, "[") {
			t.Errorf("%s with /%d: %s, want %s", c.cidr, c.mask, got, c.want)
		}
	}
}

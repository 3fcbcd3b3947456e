package program

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"porthole.dev/porthole/internal/podranges"
)

// NodeBitsFlag is the flag with the lengths of nodes' pod ranges, as the controller manager has it.
const (
	NodeBitsFlag = "node-cidr-mask-size"
	NodeBitsHelp = "length of nodes' pod ranges, as the controller manager has it, of IPv4 and behind a comma of IPv6; of the widest if they differ. A\n" +
		"wider range loses its routes where it overlaps others. Empty: that of this node, or else of most nodes"
)

// Ranges are the flags that say what pod ranges of nodes are held against.
type Ranges struct{ Pods, Services, NodeBits string }

// Parse reads them. All may be empty.
func (r Ranges) Parse() (c podranges.Cluster, err error) {
	if c.Pods, err = Prefixes("--cluster-cidr", r.Pods); err != nil {
		return c, err
	}
	if c.Services, err = Prefixes("--service-cidr", r.Services); err != nil {
		return c, err
	}
	c.NodeBits4, c.NodeBits6, err = NodeBits(r.NodeBits)
	return c, err
}

// NodeBits reads the value of NodeBitsFlag; 0 stands for a length that is not given.
func NodeBits(text string) (four, six int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	first, second, both := strings.Cut(text, ",")
	four, err = strconv.Atoi(first)
	if err == nil && both {
		six, err = strconv.Atoi(second)
	}
	if err != nil || four < 1 || four > 32 || six < 0 || six > 128 {
		return 0, 0, fmt.Errorf("--%s %q is neither a length like 24 nor two like 24,64", NodeBitsFlag, text)
	}
	return four, six, nil
}

// Prefixes reads ranges with commas between them; none if text is empty.
func Prefixes(flag, text string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		p, err := netip.ParsePrefix(strings.TrimSpace(field))
		if err != nil {
			return nil, fmt.Errorf("%s %q is not a range like 10.244.0.0/16", flag, field)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

package table

import (
	"fmt"
	"slices"
	"strings"
)

// udpFrontend names the UDP frontend whose backends an element belongs to: kept flows would stay with the old ones.
func udpFrontend(at Place) string {
	parts := strings.Split(at.Key, " . ")
	switch {
	case (at.Set == EP || at.Set == HostPortVIP) && parts[1] == "17":
		return parts[0] + " . " + parts[2]
	case (at.Set == NPEP || at.Set == HostPort) && parts[0] == "17":
		return parts[1]
	}
	return ""
}

// UDPBackends lists, per UDP frontend, the backends ("10.244.1.2 . 53") that flows may stay with.
func (rs Ruleset) UDPBackends(frontends []string) map[string][]string {
	out := make(map[string][]string, len(frontends))

	for _, f := range frontends {
		vip, port, hasVIP := strings.Cut(f, " . ")
		eps, slots, hp, key := EP, Slots, HostPortVIP, vip+" . 17 . "+port
		if !hasVIP {
			eps, slots, hp, key = NPEP, NPSlots, HostPort, "17 . "+f
		}
		backends := []string{}
		for i := 0; ; i++ {
			index, sticky := rs.Sets[slots].Elems[fmt.Sprintf("%s . %d", key, i)]
			if !sticky {
				index = fmt.Sprint(i)
			}
			b, ok := rs.Sets[eps].Elems[key+" . "+index]
			if !ok {
				break
			}
			if !slices.Contains(backends, b) {
				backends = append(backends, b)
			}
		}
		if b, ok := rs.Sets[hp].Elems[key]; ok {
			backends = append(backends, b)
		}
		out[f] = backends
	}
	return out
}

package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// speedConfig is the same for our plugin and upstream's, which starts host-local.exe for the address.
var speedConfig = strings.Replace(bridgeConfig, "10.244.7.3", "10.244.7.10", 1)

// TestPluginSpeed lets our win-bridge.exe and upstream's add and delete pods in turn, and prints a JSON line for each
// verb. Ours makes no more calls to HNS than upstream's, and is not slower. "floor" is the time of a program that
// makes the calls to HNS alone (testdata/calls). "overhead" is what ours takes beyond that; the target is 10 ms. "hns"
// is the time in hnsd, "start" that of VERSION. PORTHOLE_CNI_SPEED is the number of pods (make bench-cni: 20); without
// it there is nothing to measure.
func TestPluginSpeed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	rounds, err := strconv.Atoi(os.Getenv("PORTHOLE_CNI_SPEED"))
	if err != nil || rounds < 1 {
		t.Skip("a measurement: make bench-cni")
	}
	h := startPluginHost(t, 20348)
	h.createNetwork(bridgeNetwork)
	h.build(".", "go", "build", "-ldflags", "-s -w", "-o", filepath.Join(h.prefix.DriveC(), "ours", "calls.exe"),
		"./testdata/calls")
	p := h.pod("sandbox1")
	programs := map[string]string{"ours": "win-bridge", "floor": "calls", "upstream": `..\opt\cni\bin\win-bridge`}
	call := func(side, verb string) cni {
		return cni{exe: programs[side], command: verb, config: speedConfig, pod: p,
			env: []string{`CNI_PATH=C:\opt\cni\bin`}}
	}
	for side := range programs { // the first start reads the program from the disk
		h.timed(call(side, "VERSION"))
	}

	took := map[string][]float64{} // by side and verb, ms
	calls := map[string]int{}
	inHNS := map[string][]float64{}
	for range rounds {
		for _, side := range slices.Sorted(maps.Keys(programs)) {
			for _, verb := range []string{"VERSION", "ADD", "DEL"} {
				h.control("POST", "/stats/reset", "", nil)
				key := side + " " + verb
				took[key] = append(took[key], h.timed(call(side, verb)))
				var s Stats
				h.control("GET", "/stats", "", &s)
				calls[key] = 0
				for _, n := range s.Calls {
					calls[key] += n
				}
				inHNS[key] = append(inHNS[key], 1000*s.Seconds)
			}
		}
	}

	for _, verb := range []string{"ADD", "DEL"} {
		ours, theirs, floor := middle(took["ours "+verb]), middle(took["upstream "+verb]), middle(took["floor "+verb])
		line, err := json.Marshal(map[string]any{"name": "cni." + verb, "unit": "ms", "ours": ours, "peer": theirs,
			"peerIs": "upstream's win-bridge.exe",
			"floor":  floor, "overhead": ours - floor, "start": middle(took["ours VERSION"]),
			"hns":       middle(inHNS["ours "+verb]),
			"callsOurs": calls["ours "+verb], "callsPeer": calls["upstream "+verb], "callsFloor": calls["floor "+verb],
			"rounds": rounds})
		must(t, err)
		fmt.Println(string(line))

		if calls["ours "+verb] > calls["upstream "+verb] {
			t.Errorf("%s: %d calls to HNS, upstream makes %d", verb, calls["ours "+verb], calls["upstream "+verb])
		}
		if ours > theirs {
			t.Errorf("%s took %.1f ms, upstream's %.1f", verb, ours, theirs)
		}
	}
}

// timed makes a call of a plugin, which must succeed, and returns how long it took, in milliseconds.
func (h pluginHost) timed(c cni) float64 {
	h.t.Helper()
	begin := time.Now()
	h.mustRun(c)
	return float64(time.Since(begin).Microseconds()) / 1000
}

func middle(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

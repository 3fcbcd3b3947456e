package join

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestSameName: of two machines that join with one name at the same moment, one becomes the node. The other one says
// who has the name, and is as it was before.
func TestSameName(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("PORTHOLE_JOIN=long, or `make test-join`")
	}
	rounds, _ := strconv.Atoi(os.Getenv("PORTHOLE_JOIN_ROUNDS")) // none is 0
	rounds = max(rounds, 3)
	cp := newControlPlane(t, "cp03", "10.99.0.23")
	var list [2]*machine
	var fresh [2]string
	for i := range list {
		list[i] = cp.at(t).fresh("lin7"+strconv.Itoa(i), "10.99.0.7"+strconv.Itoa(i))
		list[i].supervise()
		fresh[i] = list[i].snapshot()
	}

	for round := range rounds {
		name := "twin" + strconv.Itoa(round)
		var results [2]result
		var wg sync.WaitGroup
		for i, m := range list {
			line := append(cp.joinLine(), "--patches", m.patches(), "--timeout", "3m", "--node-name", name)
			wg.Go(func() { results[i] = m.run(filepath.Join(bin, "porthole"), line...) })
		}
		wg.Wait()
		won, lost := 0, 1
		if results[0].code != 0 {
			won, lost = 1, 0
		}
		if w, l := results[won], results[lost]; w.code != 0 || l.code != 1 ||
			!strings.Contains(l.err, "node name "+name+" is used by another machine (systemUUID ") {
			t.Fatalf("round %d: codes %d and %d\n%s%s\n%s%s", round, w.code, l.code, w.out, w.err, l.out, l.err)
		}
		cp.ready(name)
		list[lost].clean(fresh[lost])
		if r := list[lost].run(filepath.Join(bin, "porthole"), "leave"); r.code != 0 ||
			!strings.Contains(r.out, "this machine is no node") {
			t.Errorf("round %d: leave of the machine that lost: code %d: %s%s", round, r.code, r.out, r.err)
		}
		if r := list[won].run(filepath.Join(bin, "porthole"), "leave"); r.code != 0 {
			t.Fatalf("round %d: leave: code %d: %s%s", round, r.code, r.out, r.err)
		}
		t.Logf("round %d: %s has the name after %.1f s, the other one ended after %.1f s", round, list[won].name,
			results[won].took.Seconds(), results[lost].took.Seconds())
	}
}

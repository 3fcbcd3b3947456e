package kubelet

import (
	"context"
	"fmt"
	osexec "os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// testChains: on a node whose firewall is empty, our kubelet makes the chains and rules of iptables that upstream's
// makes, and none if it is told so.
func testChains(t *testing.T, w *world) {
	defer func() {
		w.kubelet.Stop()
		w.KubeletConfig = nil
		w.startKubelet()
	}()
	if saw, err := firewall(w); saw != "" || err != nil {
		t.Errorf("with makeIPTablesUtilChains false (%v):\n%s", err, saw)
	}

	w.KubeletConfig = map[string]any{"makeIPTablesUtilChains": true}
	saw := sameOnBoth(t, w, func(bool) (saw string) {
		must(t, wait.For(w.ctx, 30*time.Second, "the chains of both families", func(context.Context) (err error) {
			saw, err = firewall(w)
			// Both make the canaries of a family after all else, and one in each of three tables.
			if n := strings.Count(saw, " :KUBE-KUBELET-CANARY"); n != 6 && err == nil {
				err = fmt.Errorf("%d canaries of 6 in\n%s", n, saw)
			}
			return err
		}))
		const empty = "for i in iptables ip6tables; do for t in filter nat mangle; do $i -t $t -F; $i -t $t -X; done; done"
		must(t, platform.InNetns(w.Netns(), osexec.Command("sh", "-ec", empty).Run))
		return saw
	})
	for _, want := range []string{":KUBE-IPTABLES-HINT", `--comment "block incoming localnet connections"`} {
		if !strings.Contains(saw, want) {
			t.Errorf("lacks %s:\n%s", want, saw)
		}
	}
}

// firewall returns the chains of the node that are Kubernetes', and all rules, by rulesOf.
func firewall(w *world) (string, error) {
	var out []byte
	err := platform.InNetns(w.Netns(), func() (err error) {
		out, err = osexec.Command("sh", "-c", `iptables-save | sed 's/^/4 /'; ip6tables-save | sed 's/^/6 /'`).Output()
		return err
	})
	return rulesOf(string(out)), err
}

// rulesOf returns the chains of Kubernetes and all rules of iptables-save with their tables, sorted, without counters.
// Each line has its family in front.
func rulesOf(saved string) string {
	var rules []string
	table := ""
	for line := range strings.Lines(saved) {
		family, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch text[:1] {
		case "*":
			table = text
		case ":":
			if chain, _, _ := strings.Cut(text, " "); strings.HasPrefix(chain, ":KUBE-") {
				rules = append(rules, family+table+" "+chain+"\n")
			}
		case "-":
			rules = append(rules, family+table+" "+text+"\n")
		}
	}
	slices.Sort(rules)
	return strings.Join(rules, "")
}

package reference

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// record is a line of test/bench/records.jsonl.
type record struct {
	Date, Machine, Command, Group, What, Ours, Peer, PeerIs, Floor, Target string
}

// TestBench: the page of figures has the newest record of each figure.
func TestBench(t *testing.T) {
	file, err := os.Open(filepath.Join(repository, "test/bench/records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var groups []string
	figures := map[string][]record{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if r.Date == "" || r.Machine == "" || r.Command == "" {
			t.Errorf("%s: a record needs date, machine and command", lines.Text())
		}
		if figures[r.Group] == nil {
			groups = append(groups, r.Group)
		}
		figures[r.Group] = newest(figures[r.Group], r)
	}

	var b strings.Builder
	b.WriteString("# Figures\n\n" + written("test/bench/records.jsonl, to which `go run ./test/bench -record MACHINE` adds") +
		"What was measured, when and on which machine, beside a peer that does the same, and beside the floor: the same work without any\n" +
		"program of ours or of the peer. A target is at most that, unless it is a share.\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n", g)
		seen := ""
		for _, r := range figures[g] {
			if now := fmt.Sprintf("`%s`, %s: %s", r.Command, r.Date, cell(r.Machine)); now != seen {
				seen = now
				fmt.Fprintf(&b, "\n%s.\n\n| what | ours | peer | floor | target |\n|---|---|---|---|---|\n", now)
			}
			peer := r.Peer
			if r.PeerIs != "" {
				peer += " (" + r.PeerIs + ")"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n",
				cell(r.What), cell(r.Ours), cell(peer), cell(r.Floor), cell(r.Target))
		}
	}
	page(t, "evidence/bench.md", b.String())
}

// newest puts a record in the place of an older one about the same.
func newest(list []record, r record) []record {
	for i := range list {
		if list[i].What == r.What {
			list[i] = r
			return list
		}
	}
	return append(list, r)
}

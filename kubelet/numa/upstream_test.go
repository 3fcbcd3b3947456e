package numa

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
)

//go:embed testdata/upstream.txt
var upstreamText string

// TestAsUpstream compares with what upstream's functions answered.
func TestAsUpstream(t *testing.T) {
	compared := map[string]int{}
	for line := range strings.Lines(upstreamText) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		compared[word]++
		switch word {
		case "take":
			upstreamTake(t, 0, rest)
		case "caches":
			per, rest, _ := strings.Cut(rest, " ")
			cores, err := strconv.Atoi(per)
			if err != nil {
				t.Fatal(line, err)
			}
			upstreamTake(t, cores, rest)
		case "merge":
			upstreamMerge(t, rest)
		}
	}
	if compared["take"] < 100 || compared["caches"] < 100 || compared["merge"] < 100 {
		t.Errorf("compared: %v", compared)
	}
}

// upstreamTake compares one choice of processors; each perCache cores of a socket have a cache together, unless it is
// 0.
func upstreamTake(t *testing.T, perCache int, line string) {
	t.Helper()
	var sockets, nodesPer, cores, threads, n int
	var free, want string
	if _, err := fmt.Sscanf(line, "%d %d %d %d free %s n %d got %s", &sockets, &nodesPer, &cores, &threads, &free, &n,
		&want); err != nil {
		t.Fatal(line, err)
	}

	m := &Machine{CPUs: map[int]Place{}}
	for s := range sockets {
		for c := range cores {
			node := s*nodesPer + c*nodesPer/cores
			if nodesPer < 0 {
				node = s / -nodesPer
			}
			cache := s
			if perCache > 0 {
				cache = s*((cores+perCache-1)/perCache) + c/perCache
			}
			for th := range threads {
				m.CPUs[s*cores+c+th*sockets*cores] = Place{Node: node, Socket: s, Cache: cache, Core: s*cores + c}
			}
		}
	}
	set, _ := cpuset.Parse(free)
	if got, err := Take(m, set, n, perCache > 0); err != nil || got.String() != want {
		t.Errorf("take %s: %s, %v", line, got, err)
	}
}

func upstreamMerge(t *testing.T, line string) {
	t.Helper()
	parts := strings.Split(line, " | ")
	head, tail := strings.Fields(parts[0]), strings.Fields(parts[len(parts)-1])
	nodes, _ := strconv.Atoi(head[0])
	m := &Machine{}
	for n := range nodes {
		one := Node{ID: n}
		for other := range nodes {
			d := uint64(10)
			if other != n {
				d = uint64(20 + (n*3+other*3)%7)
			}
			one.Distances = append(one.Distances, d)
		}
		m.Nodes = append(m.Nodes, one)
	}

	mask := func(text string) (out Mask) {
		for _, w := range strings.Split(text, ",") {
			if n, err := strconv.Atoi(w); err == nil {
				out |= MaskOf(n)
			}
		}
		return out
	}
	var lists [][]Hint
	for _, part := range parts[1 : len(parts)-1] {
		list := []Hint{}
		for _, w := range strings.Fields(part) {
			set, preferred, _ := strings.Cut(w, ":")
			list = append(list, Hint{mask(set), preferred == "true"})
		}
		lists = append(lists, list)
	}
	got, ok := Policy{Name: head[2], Closest: head[1] == "true", Machine: m}.Merge(lists)
	if want := (Hint{mask(tail[0]), tail[1] == "true"}); got != want || fmt.Sprint(ok) != tail[2] {
		t.Errorf("merge %s: %v %v %v", line, got.Nodes.Nodes(), got.Preferred, ok)
	}
}

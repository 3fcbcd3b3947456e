package check

import "slices"

// Probes are the names of the probes, in the order in which they run.
var Probes = []string{"host", "hns", "runtime"}

// Facts returns what our programs assume of Windows and no document confirms, by probe. The caller owns the list.
func Facts() []Fact {
	var all []Fact
	for probe, facts := range map[string][]Fact{"host": hostFacts, "hns": hnsFacts, "runtime": runtimeFacts} {
		for _, f := range facts {
			f.Probe = probe
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all,
		func(a, b Fact) int { return slices.Index(Probes, a.Probe) - slices.Index(Probes, b.Probe) })
	return all
}

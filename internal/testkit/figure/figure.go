// Package figure prints what tests measure, one JSON line per figure, as the benchmarks of test/bench do.
package figure

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Figure is one line. Values are medians.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Ours   float64 `json:"ours"`
	Peer   float64 `json:"peer,omitempty"`
	PeerIs string  `json:"peerIs,omitempty"`
	// Target is what Ours must not exceed; 0: none.
	Target  float64              `json:"target,omitempty"`
	OK      *bool                `json:"ok,omitempty"`
	Samples map[string][]float64 `json:"samples,omitempty"`
	Note    string               `json:"note,omitempty"`
}

// Print writes the figure to standard output. It is good if Ours exceeds neither Target nor Peer.
func Print(f Figure) {
	if f.Target > 0 || f.Peer > 0 {
		good := (f.Target == 0 || f.Ours <= f.Target) && (f.Peer == 0 || f.Ours <= f.Peer)
		f.OK = &good
	}
	line, err := json.Marshal(f)
	if err != nil { // figures hold numbers and text
		panic(err)
	}
	fmt.Println(string(line))
}

// Median returns the middle of samples, with two digits behind the point; 0 if there are none.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(samples))
	return math.Round((s[(len(s)-1)/2]+s[len(s)/2])*50) / 100
}

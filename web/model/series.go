package model

import (
	"cmp"
	"slices"
	"time"
)

// Sample is what a node's service proxy had counted at one moment.
type Sample struct {
	At time.Time
	// Latency counts the changes of endpoints by how long it took until they were programmed.
	Latency []Bucket
	// Calls counts calls to HNS by kind and result (ok, or a code); Seconds is how long those of a kind took in all.
	Calls   map[[2]string]float64
	Seconds map[string]float64
}

// Bucket of a histogram: how many took at most so many seconds. The last one has no bound (+Inf).
type Bucket struct{ Seconds, Count float64 }

// LatencyPoint is how long changes took that were programmed between two samples, in milliseconds.
type LatencyPoint struct {
	At     time.Time `json:"at"`
	Node   string    `json:"node"`
	Median float64   `json:"median"`
	P99    float64   `json:"p99"`
	Count  float64   `json:"count"`
}

// CallPoint is how many calls to HNS of a kind a node made per second between two samples, and how long one took, in
// milliseconds.
type CallPoint struct {
	At        time.Time `json:"at"`
	Node      string    `json:"node"`
	Call      string    `json:"call"`
	PerSecond float64   `json:"perSecond"`
	Failed    float64   `json:"failed"`
	Took      float64   `json:"took"`
}

// Latency returns a point for each pair of samples between which something was programmed. Counters that fell are
// those of a proxy that was started anew.
func Latency(node string, samples []Sample) (out []LatencyPoint) {
	for i := 1; i < len(samples); i++ {
		a, b := samples[i-1].Latency, samples[i].Latency
		if len(b) == 0 {
			continue
		}
		if len(a) != len(b) || a[len(a)-1].Count > b[len(b)-1].Count {
			a = make([]Bucket, len(b))
		}
		delta := make([]Bucket, len(b))
		for j := range b {
			delta[j] = Bucket{b[j].Seconds, b[j].Count - a[j].Count}
		}
		if n := delta[len(delta)-1].Count; n > 0 {
			out = append(out, LatencyPoint{At: samples[i].At, Node: node, Median: 1000 * quantile(delta, 0.5),
				P99: 1000 * quantile(delta, 0.99), Count: n})
		}
	}
	return out
}

// quantile estimates as Prometheus' histogram_quantile does: evenly within the bucket.
func quantile(buckets []Bucket, q float64) float64 {
	rank := q * buckets[len(buckets)-1].Count
	for i, b := range buckets {
		if b.Count < rank {
			continue
		}
		low, below := 0.0, 0.0
		if i > 0 {
			low, below = buckets[i-1].Seconds, buckets[i-1].Count
		}
		if i == len(buckets)-1 || b.Count == below {
			return low // without a bound
		}
		return low + (b.Seconds-low)*(rank-below)/(b.Count-below)
	}
	return 0
}

// CallRates returns a point for each kind of call and pair of samples.
func CallRates(node string, samples []Sample) (out []CallPoint) {
	for i := 1; i < len(samples); i++ {
		a, b := samples[i-1], samples[i]
		// Samples at the same moment, or with a clock that went back, give no rate.
		seconds := b.At.Sub(a.At).Seconds()
		if seconds <= 0 {
			continue
		}

		points := map[string]*CallPoint{}
		for key, count := range b.Calls {
			p := points[key[0]]
			if p == nil {
				p = &CallPoint{At: b.At, Node: node, Call: key[0]}
				points[key[0]] = p
			}
			made := count - a.Calls[key]
			// A counter that is smaller than before began again: the program was restarted.
			if made < 0 {
				made = count
			}
			p.PerSecond += made / seconds
			if key[1] != "ok" {
				p.Failed += made / seconds
			}
		}

		for call, p := range points {
			// The mean duration, in milliseconds, is that of the calls between the two samples.
			if took := b.Seconds[call] - a.Seconds[call]; took > 0 && p.PerSecond > 0 {
				p.Took = 1000 * took / (p.PerSecond * seconds)
			}
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(x, y CallPoint) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Call, y.Call)) })
	return out
}

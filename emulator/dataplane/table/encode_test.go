package table

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// Elements of each kind of set are bytes as the kernel has them: fields fill up to four bytes, numbers of the wire in
// its order and marks in the machine's. A key or value of another type is refused.
func TestEncode(t *testing.T) {
	mark := binary.NativeEndian.AppendUint32(nil, 7)
	vip, pod := []byte{10, 96, 0, 10}, []byte{10, 244, 1, 11}
	tcp80, port8080 := []byte{6, 0, 0, 0, 0, 80, 0, 0}, []byte{0x1f, 0x90, 0, 0}
	six := netip.MustParseAddr("fd00::11").AsSlice()
	for _, c := range []struct {
		family     Family
		set        string
		key, value string
		kind       Kind
		want       Encoded
	}{
		{IPv4, DSR, "10.96.0.10 . 6 . 80", "goto ep_r2_dsr", Kind{Map: true, Verdicts: true},
			Encoded{Key: slices.Concat(vip, tcp80), Chain: "ep_r2_dsr", Goto: true}},
		{IPv4, ACLIn, "10.244.1.11", "jump aclin_1", Kind{Map: true, Verdicts: true},
			Encoded{Key: pod, Chain: "aclin_1"}},
		{IPv4, ACLIn, "10.244.1.11", "", Kind{Map: true, Verdicts: true}, Encoded{Key: pod}}, // one that goes
		{IPv4, EP, "10.96.0.10 . 6 . 80 . 7", "10.244.1.11 . 8080", Kind{Map: true},
			Encoded{Key: slices.Concat(vip, tcp80, mark), Value: slices.Concat(pod, port8080)}},
		{IPv4, Keeps, "7", "7", Kind{Map: true}, Encoded{Key: mark, Value: mark}},
		{IPv4, Loop, "10.244.1.11 . 10.244.1.11", "", Kind{}, Encoded{Key: slices.Concat(pod, pod)}},
		{IPv6, HostPort, "6 . 80", "fd00::11 . 8080", Kind{Map: true},
			Encoded{Key: tcp80, Value: slices.Concat(six, port8080)}},
	} {
		kind, got, err := c.family.Encode([]Element{{Place{c.set, c.key}, c.value}})
		if err != nil || kind != c.kind || len(got) != 1 || !slices.Equal(got[0].Key, c.want.Key) ||
			!slices.Equal(got[0].Value, c.want.Value) || got[0].Chain != c.want.Chain || got[0].Goto != c.want.Goto {
			t.Errorf("%s %s { %s : %s }: %+v, %+v, %v", c.family.Table, c.set, c.key, c.value, kind, got, err)
		}
	}

	for _, e := range []Element{{Place{Loop, "10.244.1.11"}, ""}, {Place{Loop, "fd00::1 . fd00::1"}, ""},
		{Place{Keeps, "many"}, "7"}, {Place{Keeps, "7"}, "-1"}} {
		if _, got, err := IPv4.Encode([]Element{e}); err == nil {
			t.Errorf("%+v: %+v", e, got)
		}
	}
}

package platform

import (
	"encoding/binary"
	"errors"
	"testing"
)

// processors returns records as Windows gives them: idle, kernel and user time of each processor.
func processors(times ...[3]uint64) (out []byte) {
	for _, t := range times {
		record := make([]byte, processorTimesSize)
		for i, v := range t {
			binary.LittleEndian.PutUint64(record[8*i:], v)
		}
		out = append(out, record...)
	}
	return out
}

// TestBusyTime: on a machine with more than 64 processors Windows divides them into groups, and all groups count.
func TestBusyTime(t *testing.T) {
	first, second := processors([3]uint64{90, 100, 5}, [3]uint64{50, 100, 50}), processors([3]uint64{0, 7, 1000})
	broken := errors.New("no such group")

	for name, c := range map[string]struct {
		groups [][]byte
		want   uint64
		fails  bool
	}{
		"one group":          {groups: [][]byte{first}, want: 15 + 100},
		"two groups":         {groups: [][]byte{first, second}, want: 15 + 100 + 1007},
		"idle beyond kernel": {groups: [][]byte{processors([3]uint64{101, 100, 0})}},
		"a group fails":      {groups: [][]byte{first, nil}, fails: true},
		"half a record":      {groups: [][]byte{first[:60]}, fails: true},
		"no processors":      {groups: [][]byte{{}}, fails: true},
	} {
		got, err := busyTime(len(c.groups), func(group uint16) ([]byte, error) {
			if c.groups[group] == nil {
				return nil, broken
			}
			return c.groups[group], nil
		})
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %d, error %v; want %d", name, got, err, c.want)
		}
	}
}

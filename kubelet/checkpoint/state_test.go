package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// These were written by MarshalCheckpoint of CPUManagerCheckpointV2 and MemoryManagerCheckpointV1 of k8s.io/kubernetes
// 1.36.3. Its kubelet writes these formats unless the feature gate PodLevelResourceManagers is on; by default it is
// off.
var (
	cpusOfUpstream = []string{
		`{"policyName":"static","defaultCpuSet":"0-1,4","entries":{"0b6f":{"app":"2-3"},"0b70":{"one":"5","two":"6"}},"checksum":3432857543}`,
		`{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`,
	}
	memoryOfUpstream = []string{
		`{"policyName":"Static","machineState":{"0":{"numberOfAssignments":2,"memoryMap":{"hugepages-2Mi":{"total":10,"systemReserved":0,"allocatable":10,"reserved":4,"free":6},"memory":{"total":1000,"systemReserved":100,"allocatable":900,"reserved":300,"free":600}},"cells":[0]},"1":{"numberOfAssignments":0,"memoryMap":{"memory":{"total":1000,"systemReserved":0,"allocatable":1000,"reserved":0,"free":1000}},"cells":[1]}},"entries":{"0b6f":{"app":[{"numaAffinity":[0],"type":"memory","size":300},{"numaAffinity":[0],"type":"hugepages-2Mi","size":4}]}},"checksum":886983911}`,
		`{"policyName":"None","machineState":{},"checksum":4236770233}`,
	}
)

// TestStateOfUpstream: upstream's files of processors and memory are read, and what was read is written as upstream
// would.
func TestStateOfUpstream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	again := map[string]func() error{}
	for _, text := range cpusOfUpstream {
		again[text] = func() error {
			c, err := ReadCPUs(path)
			if err != nil {
				return err
			}
			return WriteCPUs(path, *c)
		}
	}
	for _, text := range memoryOfUpstream {
		again[text] = func() error {
			m, err := ReadMemory(path)
			if err != nil {
				return err
			}
			return WriteMemory(path, *m)
		}
	}

	for text, rewrite := range again {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := rewrite(); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("written as\n%s\nwant\n%s", got, text)
		}

		_ = os.WriteFile(path,
			[]byte(strings.NewReplacer("static", "statis", "none", "nine", "Static", "Statis", "None", "Nine").
				Replace(text)), 0o600)
		if err := rewrite(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("changed: %v", err)
		}
		_ = os.WriteFile(path, []byte(text[:20]), 0o600)
		if err := rewrite(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("cut: %v", err)
		}
	}

	if c, err := ReadCPUs(path + "no"); c != nil || err != nil {
		t.Errorf("no file: %v, %v", c, err)
	}
	if m, err := ReadMemory(path + "no"); m != nil || err != nil {
		t.Errorf("no file: %v, %v", m, err)
	}
}

package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// ofUpstream was written by checkpoint.New(…).MarshalCheckpoint() of
// k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint, 1.36.3.
const ofUpstream = `{"Data":{"PodDeviceEntries":[{"PodUID":"0b6f","ContainerName":"app","ResourceName":"example.com/gpu","DeviceIDs":{"0":["gpu-1"],"1":["gpu-2","gpu-3"]},"AllocResp":"CgJoaQ=="},{"PodUID":"0b70","ContainerName":"init","ResourceName":"example.com/nic","DeviceIDs":{"-1":["eth9"]},"AllocResp":null}],"RegisteredDevices":{"example.com/gpu":["gpu-1","gpu-2","gpu-3"],"example.com/nic":[]}},"Checksum":427994492}`

// TestUpstreamsFile: what upstream's kubelet wrote is read, and what is read is written as upstream's kubelet would.
func TestUpstreamsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	put(ofUpstream)
	entries, registered, err := ReadDevices(path)
	if err != nil || len(entries) != 2 ||
		!reflect.DeepEqual(entries[0].DeviceIDs, DevicesPerNUMA{0: {"gpu-1"}, 1: {"gpu-2", "gpu-3"}}) ||
		len(registered) != 2 {
		t.Fatalf("%+v %v %v", entries, registered, err)
	}
	if err := WriteDevices(path, entries, registered); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != ofUpstream {
		t.Errorf("written again it is\n%s\nnot\n%s", got, ofUpstream)
	}

	put(strings.Replace(ofUpstream, "gpu-1", "gpu-9", 1))
	if _, _, err := ReadDevices(path); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a changed file: %v", err)
	}
	put(ofUpstream[:100])
	if _, _, err := ReadDevices(path); err == nil {
		t.Error("half a file was read")
	}
	if entries, _, err := ReadDevices(path + "-none"); err != nil || entries != nil {
		t.Errorf("no file: %v %v", entries, err)
	}
}

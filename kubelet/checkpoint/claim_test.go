package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// claimsOfUpstream was written by state.NewCheckpoint(…) of k8s.io/kubernetes/pkg/kubelet/cm/dra/state, 1.36.3, as
// JSON.
const claimsOfUpstream = `{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"0a5e\",\"ClaimName\":\"gpus\",\"Namespace\":\"ns\",\"PodUIDs\":{\"0b6f\":{},\"0b70\":{}},\"DriverState\":{\"gpu.example.com\":{\"Devices\":[{\"PoolName\":\"node1\",\"DeviceName\":\"gpu-0\",\"ShareID\":null,\"RequestNames\":[\"big\"],\"CDIDeviceIDs\":[\"example.com/gpu=0\"]},{\"PoolName\":\"node1\",\"DeviceName\":\"gpu-1\",\"ShareID\":\"0c1d\",\"RequestNames\":null,\"CDIDeviceIDs\":null}]},\"nic.example.com\":{\"Devices\":null}}},{\"ClaimUID\":\"0a5f\",\"ClaimName\":\"other\",\"Namespace\":\"ns2\",\"PodUIDs\":{\"0b6f\":{}},\"DriverState\":{\"gpu.example.com\":{\"Devices\":null}}}]}","Checksum":1576647655}`

// TestClaimsOfUpstream: the file of claims that upstream's kubelet wrote is read, and what is read is written as
// upstream's kubelet would.
func TestClaimsOfUpstream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	put(claimsOfUpstream)
	claims, err := ReadClaims(path)
	if err != nil || len(claims) != 2 || *claims[0].DriverState["gpu.example.com"].Devices[1].ShareID != "0c1d" {
		t.Fatalf("%+v %v", claims, err)
	}
	if err := WriteClaims(path, claims); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != claimsOfUpstream {
		t.Errorf("written again it is\n%s\nnot\n%s", got, claimsOfUpstream)
	}

	put(strings.Replace(claimsOfUpstream, "gpu-1", "gpu-9", 1))
	if _, err := ReadClaims(path); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a changed file: %v", err)
	}
	put(claimsOfUpstream[:100])
	if _, err := ReadClaims(path); err == nil {
		t.Error("half a file was read")
	}
	if claims, err := ReadClaims(path + "-none"); err != nil || claims != nil {
		t.Errorf("no file: %v %v", claims, err)
	}
}

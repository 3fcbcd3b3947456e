package desired

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"
)

// TestHash: the hash is upstream's, computed here as upstream does (pkg/kubelet/container/helpers.go, pkg/util/hash),
// and a container of an earlier kubelet of ours is not changed.
func TestHash(t *testing.T) {
	for _, c := range []v1.Container{
		{Name: "c", Image: "registry.k8s.io/pause:3.10"},
		{Name: "with-dash", Image: "mcr.microsoft.com/windows/nanoserver:ltsc2022@sha256:00ff"},
		{Name: "ü<>&", Image: ""},
	} {
		text, err := json.Marshal(map[string]string{"name": c.Name, "image": c.Image})
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New32a()
		fmt.Fprintf(h, "%v", dump.ForHash(text))
		if got, want := Hash(&c), strconv.FormatUint(uint64(h.Sum32()), 16); got != want {
			t.Errorf("%s: %s, upstream's is %s", c.Name, got, want)
		}
		if earlierHash(&c) == Hash(&c) || Changed(earlierHash(&c), &c) || Changed("", &c) || !Changed("1", &c) {
			t.Errorf("%s: what counts as changed", c.Name)
		}
	}
}

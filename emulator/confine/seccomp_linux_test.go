package confine

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// TestProfile: the filter refuses what that of the kubelet's sandboxes does, which a test there compares with
// containerd's. The order of rules does not matter.
func TestProfile(t *testing.T) {
	data, err := os.ReadFile("../../kubelet/runtime/sandbox-seccomp.json")
	if err != nil {
		t.Fatal(err)
	}
	var theirs SeccompProfile
	if err := json.Unmarshal(data, &theirs); err != nil {
		t.Fatal(err)
	}
	if got, want := rules(Profile()), rules(theirs); !reflect.DeepEqual(got, want) {
		t.Errorf("the filter is\n%v\nwant\n%v", got, want)
	}
}

// rules lists the rules of a profile as JSON, one for each system call: how a profile groups its calls does not matter.
func rules(p SeccompProfile) map[string]bool {
	set := map[string]bool{p.DefaultAction: true}
	for _, r := range p.Syscalls {
		for _, name := range r.Names {
			r.Names = []string{name}
			text, err := json.Marshal(r)
			if err != nil {
				panic(err)
			}
			set[string(text)] = true
		}
	}
	return set
}

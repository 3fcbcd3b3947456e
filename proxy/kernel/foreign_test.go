package kernel

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
)

// Policies that somebody else puts on endpoints, ours or a pod's, survive all that the proxy does: services that come,
// change and go, its restart, and its full checks.
func TestPoliciesOfOthersSurvive(t *testing.T) {
	acl := hns.Policy{Type: "ACL",
		Settings: json.RawMessage(
			`{"Protocols":"6","Action":"Block","Direction":"In","RemotePorts":"9999","Priority":500}`)}
	onNetwork(t, ws2022, net1, func(b *bench) {
		b.edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer) {
			*eps = append(*eps, local("10.244.1.7"), foreignRemote("10.244.3.9"))
		})
	}, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", "local 10.244.1.7:80", "10.244.3.5:80"),
			clusterIP("10.96.0.11:80", "10.244.3.9:80"))
		b.soon()
		b.edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer) {
			for i := range *eps {
				(*eps)[i].Policies = append((*eps)[i].Policies, acl)
			}
		})
		kept := func(after string, n int) {
			t.Helper()
			list, err := b.host.Endpoints(t.Context(), net1.ID)
			if err != nil || len(list) != n {
				t.Fatalf("after %s: %d endpoints: %v", after, len(list), err)
			}
			for _, e := range list {
				if len(e.Policies) == 0 || fmt.Sprint(e.Policies[len(e.Policies)-1]) != fmt.Sprint(acl) {
					t.Errorf("after %s endpoint %v has the policies %v", after, e.Addrs, e.Policies)
				}
			}
		}

		b.want(clusterIP("10.96.0.10:80", "10.244.3.5:80"),
			clusterIP("10.96.0.11:80", "10.244.3.9:80", "local 10.244.1.7:80"),
			nodePort(30080, "local 10.244.1.7:80", "10.244.3.5:80"))
		b.soon()
		kept("a change of services", 3)
		b.pass(5 * time.Minute)
		kept("full checks", 3)
		b.restart()
		b.pass(time.Minute)
		kept("a restart", 3)
	})
}

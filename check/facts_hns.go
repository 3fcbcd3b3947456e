package check

import "fmt"

// attached are the answers to attaching an endpoint that is attached already; routes/podnet takes each as success.
var attached = oneOf("ok", "0x803b002b", "0x803b0014")

// hnsFacts are what we assume of the Host Networking Service.
var hnsFacts = []Fact{
	{Number: 4, Line: "attach.again.hcn", Fact: "What does HcnModifyNamespace answer for an endpoint that is attached already?",
		Assume: "success, 0x803b002b or 0x803b0014", Source: "flannel-io/flannel#1391; HCNHResult.md of MicrosoftDocs/Virtualization-Documentation",
		holds: attached, Changes: true},
	{Number: 4, Line: "attach.again.v1", Fact: "What does the first interface answer to a second attach to the host?",
		Assume: "success, 0x803b002b or 0x803b0014", Source: "as above", holds: attached, Changes: true},
	{Number: 4, Line: "attach.adapter.seconds", Fact: "How long after the attach does an adapter have the endpoint's address?",
		Assume: "at most 10 s", Source: "`routes/podnet`", holds: atMost(10), Changes: true},
	{Number: 4, Line: "restart.endpoint", Fact: "Is the host's endpoint attached after HNS was restarted, by its listing?",
		Assume: "listed, with or without its namespace", Source: "flannel-io/flannel#1112", holds: oneOf("attached", "detached"), Changes: true},
	{Number: 4, Line: "restart.attach", Fact: "What does an attach answer after HNS was restarted?",
		Assume: "success, 0x803b002b or 0x803b0014", Source: "flannel-io/flannel#1391", holds: attached, Changes: true},
	{Number: 5, Line: "namespaces.types", Fact: "Which namespaces does a host have before anything else is done?",
		Assume: "a HostDefault or Host namespace, or none", Source: "hcsshim `cmd/ncproxy`; microsoft/SDN `hns.v2.psm1` (New-HnsNamespace -Default)",
		holds: func(v string) bool { return v == "none" || has("HostDefault")(v) || has("Host")(v) }},
	{Number: 5, Line: "namespace.create", Fact: "Can a HostDefault namespace be made where there is none?",
		Assume: "yes", Source: "hcsshim `cmd/ncproxy/hcn_networking_test.go`", holds: oneOf("ok", "there is one"), Changes: true},
	{Number: 9, Line: "attach.default-routes", Fact: "How many default routes does the host's endpoint add if it is made without routes?",
		Assume: "none or one", Source: "flannel-io/flannel#1763", holds: atMost(1), Changes: true},
	{Number: 9, Line: "attach.default-routes.nohop", Fact: "How many default routes does it add if it is made with a route through 0.0.0.0?",
		Assume: "none", Source: "microsoft/SDN `start-kubelet.ps1` (-Gateway 0.0.0.0)", holds: atMost(0), Changes: true},
	{Number: 10, Line: "balancer.nodeport-then-nodeip", Fact: "Can a load balancer on the node's own address have the port of one without addresses?",
		Assume: "nothing; the answer decides whether a node can have its node ports itself", Source: "`proxy/kernel`; hcsshim `hcn/hcnloadbalancer.go`",
		holds: anything, Changes: true},
	{Number: 10, Line: "balancer.nodeip-then-nodeport", Fact: "And in the other order?",
		Assume: "the load balancer without addresses is made", Source: "upstream's winkernel makes only this one", holds: oneOf("ok"), Changes: true},
	{Number: 14, Line: "filter.as-listed", Fact: "Does a filter with an id in HNS's own spelling find its object?",
		Assume: "yes", Source: "hcsshim passes ids as HNS wrote them", holds: oneOf("1"), Changes: true},
	{Number: 14, Line: "filter.lower", Fact: "With the id in lower case?", Assume: "nothing", Source: "`hns`", holds: anything, Changes: true},
	{Number: 14, Line: "filter.upper", Fact: "With the id in upper case?", Assume: "nothing", Source: "`hns`", holds: anything, Changes: true},
	{Number: 14, Line: "filter.braces", Fact: "With the id in braces?", Assume: "nothing", Source: "`hns`", holds: anything, Changes: true},
	{Number: 16, Line: "left.balancers", Fact: "How many of the two load balancers of a run with --leave are listed after a reboot?",
		Assume: "nothing: those of another boot are replaced", Source: "kubernetes/kubernetes#78225, #139519", holds: anything},
	{Number: 16, Line: "left.endpoint", Fact: "Is the host's endpoint of that run listed, and in a namespace?",
		Assume: "nothing", Source: "flannel-io/flannel#1112, #1423", holds: anything},
	{Number: 16, Line: "left.adapter", Fact: "Does an adapter have its address?", Assume: "nothing: without one the endpoint is made again",
		Source: "kubernetes-sigs/sig-windows-tools#94, #128", holds: anything},
	{Number: 17, Line: "network.prefix", Fact: "Does a network read back the prefix that it was made with?", Assume: "the same range",
		Source: "`routes/podnet`", holds: oneOf("same"), Changes: true},
	{Number: 17, Line: "network.gateway", Fact: "Does it read back its gateway?", Assume: "the same address", Source: "`routes/podnet`",
		holds: oneOf("same"), Changes: true},
	{Number: 17, Line: "network.delete.balancers", Fact: "Is a load balancer still listed after the network of its endpoints was deleted?",
		Assume: "nothing: ours are deleted first", Source: "microsoft/Windows-Containers#79", holds: anything, Changes: true},
	{Number: 29, Line: "hns.version", Fact: "Which version has HNS?", Assume: "9.2 or later", Source: "hcsshim `hcn`: DSR and v2 schema",
		holds: versionAtLeast(9, 2)},
	{Number: 30, Line: "notify.kinds", Fact: "Which notifications does HNS send when networks, endpoints, namespaces and load balancers come and go?",
		Assume: "nothing: a missing one costs at most 30 s", Source: "learn.microsoft.com HCN_NOTIFICATIONS; `emulator/hnsd/serve`", holds: anything, Changes: true},
	{Number: 31, Line: "notify.data", Fact: "Which form has the data of a notification?", Assume: "nothing: it is not read", Source: "`emulator/hnsd/serve`",
		holds: anything, Changes: true},
	{Number: 49, Line: "restart.notifications", Fact: "How many notifications does a registration get that was made before HNS was restarted?",
		Assume: "nothing: a missing one costs at most 30 s", Source: "`emulator/dll`: none, the registration ends with the service", holds: anything, Changes: true},
	{Number: 50, Line: "endpoint.long-prefix", Fact: "Which code has an endpoint with an IPv4 address and a prefix of 64 bits?",
		Assume: "nothing: nobody makes one", Source: "`emulator/hnsd`: invalid parameter", holds: anything, Changes: true},
	{Number: 32, Line: "policylists.fields", Fact: "Which fields has a load balancer in the listing of the first interface?",
		Assume: "ID, References and Policies", Source: "`proxy/kernel`, cheap check of load balancers",
		holds: func(v string) bool { return has("ID")(v) && has("References")(v) && has("Policies")(v) }, Changes: true},
	{Number: 33, Line: "network.unknown", Fact: "Which code has the opening of a network that does not exist?",
		Assume: "0x490 or 0x803b0001", Source: "`hns`", holds: oneOf("0x490", "0x803b0001")},
	{Number: 34, Line: "balancer.same-frontend", Fact: "Which code has a second load balancer with the same frontend?",
		Assume: "0x803b0013, 0xb7 or 0x1392", Source: "`hns`; the profiles of `emulator/hnsd`", holds: oneOf("0x803b0013", "0xb7", "0x1392"), Changes: true},
	{Number: 35, Line: "balancer.id", Fact: "Does a load balancer keep the id that it is given?", Assume: "yes or no", Source: "`hns/hcn` looks each time",
		holds: oneOf("kept", "replaced"), Changes: true},
	{Number: 36, Line: "balancer.modify", Fact: "Does a modification change a load balancer?",
		Assume: "nothing: what HNS did is read back", Source: "kubernetes/kubernetes#131466", holds: anything, Changes: true},
	{Number: 37, Line: "balancer.listener", Fact: "Is a node port refused on which a program of the host listens?",
		Assume: "nothing", Source: "kubernetes/kubernetes#137530", holds: anything, Changes: true},
	{Number: 38, Line: "reach.plain", Fact: "Does the node itself reach a load balancer without direct server return?",
		Assume: "nothing: a probe that fails is no proof", Source: "`proxy/kernel`", holds: anything, Changes: true},
	{Number: 38, Line: "reach.dsr", Fact: "One with direct server return?", Assume: "nothing, as above", Source: "`proxy/kernel`", holds: anything, Changes: true},
	{Number: 39, Line: "reach.local-routed", Fact: "One with port flag 2 (LocalRoutedVIP)?", Assume: "nothing; the answer decides about the node's own access",
		Source: "hcsshim `hcn/hcnloadbalancer.go`", holds: anything, Changes: true},
	{Number: 40, Line: "network.management.seconds", Fact: "How long after its creation does a network show the node's address?",
		Assume: "at most 60 s", Source: "flannel `hostgw_windows.go` waits for it too", holds: atMost(60), Changes: true},
	{Number: 41, Line: "network.address.seconds", Fact: "How long is the node without its address when a network is made?",
		Assume: "at most 60 s", Source: "flannel-io/flannel#1857; rancher/rke2#5335", holds: atMost(60), Changes: true},
	{Number: 1, Line: "forwarding.uplink", Fact: "Does the node's own interface forward packets after a network was made on it?",
		Assume: "on or off; routes switch it on", Source: "flannel `hostgw_windows.go`; microsoft/SDN `start-kubelet.ps1`", holds: oneOf("on", "off"), Changes: true},
	{Number: 1, Line: "forwarding.endpoint", Fact: "Does the interface of the host's endpoint?", Assume: "on or off; routes switch it on", Source: "as above",
		holds: oneOf("on", "off"), Changes: true},
}

func versionAtLeast(major, minor int) func(string) bool {
	return func(v string) bool {
		var a, b int
		if n, err := scanVersion(v, &a, &b); err != nil || n != 2 {
			return false
		}
		return a > major || a == major && b >= minor
	}
}

func scanVersion(v string, major, minor *int) (int, error) {
	return fmt.Sscanf(v, "%d.%d", major, minor)
}

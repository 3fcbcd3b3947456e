package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/latency"
)

// ScenarioRow is one way in which HNS fails, as reported for real hosts, in terms of rules, losses and service states.
type ScenarioRow struct {
	Name    string          `json:"name"`              // F-n of the catalogue; a variant has a slash
	What    string          `json:"what"`              // what happens, in one line
	Source  string          `json:"source,omitempty"`  // where it was seen
	Needs   string          `json:"needs,omitempty"`   // what the test has to do or choose itself
	Faults  []Fault         `json:"faults,omitempty"`  // replace the rules in force
	Lose    *LoseRequest    `json:"lose,omitempty"`    // done once
	Service *ServiceRequest `json:"service,omitempty"` // done once
	Latency string          `json:"latency,omitempty"`
	Pool    *PoolRequest    `json:"pool,omitempty"`
}

// service is a state that ends by itself after five seconds, with all objects kept.
func service(state string) *ServiceRequest {
	return &ServiceRequest{State: state, Keep: "all", ForMs: 5000}
}

// scenarios is the part of the catalogue of failures that concerns a service proxy.
var scenarios = []ScenarioRow{
	{Name: "F-1", What: "HNS loses all load balancers, from its lists and from the packets' way",
		Source: "kubernetes/kubernetes#110674, #110849",
		Lose:   &LoseRequest{Kind: "LoadBalancer"}},
	{Name: "F-1/most", What: "the same, with one in a hundred left",
		Lose: &LoseRequest{Kind: "LoadBalancer", Percent: 99}},
	{Name: "F-2", What: "one load balancer is deleted by somebody else", Source: "kubernetes/kubernetes#135802",
		Lose: &LoseRequest{Kind: "LoadBalancer", Count: 1}},
	{Name: "F-3", What: "load balancers of services with local endpoints only are deleted by the proxy itself",
		Source: "kubernetes/kubernetes#133928",
		Needs:  "no rule: two services with the same backends, one of them with internalTrafficPolicy Local"},
	{Name: "F-4",
		What:   "a creation is carried out and answered with: exists already; the frontend is there under an id that the caller does not know",
		Source: "kubernetes/kubernetes#139519",
		Faults: []Fault{{Function: "HcnCreateLoadBalancer", Action: "after", Code: hnsd.ErrAlreadyExists.Code,
			Text: hnsd.ErrAlreadyExists.Text, Times: 1}}},
	{Name: "F-5", What: "the load balancer of the health check is refused: a host process has its port",
		Source: "kubernetes/kubernetes#137530",
		Needs:  "a load balancer for port 10256; or build 17763 and a real listener of the host",
		Faults: []Fault{{Function: "HcnCreateLoadBalancer", Match: `"ExternalPort":\s*10256\b`, Action: "fail",
			Code: hnsd.ErrPortAlreadyExists.Code, Text: hnsd.ErrPortAlreadyExists.Text}}},
	{Name: "F-6", What: "three in ten deletions of load balancers fail (the code is unverified, no. 63)",
		Source: "kubernetes/kubernetes#113524, #113521",
		Faults: []Fault{{Function: "HcnDeleteLoadBalancer", Probability: 0.3, Seed: 6, Action: "fail",
			Code: hnsd.ErrFailed.Code, Text: hnsd.ErrFailed.Text}}},
	{Name: "F-7", What: "a deletion succeeds and deletes nothing: a stale load balancer stays",
		Source: "kubernetes/kubernetes#112836",
		Faults: []Fault{{Function: "HcnDeleteLoadBalancer", Action: "skip", Times: 1}}},
	{Name: "F-8", What: "for three seconds the list of endpoints is empty, and a success",
		Faults: []Fault{{Function: "HcnEnumerateEndpoints", Action: "empty", ForMs: 3000}}},
	{Name: "F-9", What: "objects go while a list of them is read: one in twenty cannot be opened, twenty times",
		Faults: []Fault{{Function: "HcnOpen[LE]*", Probability: 0.05, Seed: 9, Times: 20, Action: "fail",
			Code: hnsd.ErrElementNotFound.Code, Text: hnsd.ErrElementNotFound.Text}}},
	{Name: "F-10", What: "the service is stopped for five seconds", Service: service("stopped")},
	{Name: "F-10/gone", What: "the service is gone for five seconds", Service: service("gone")},
	{Name: "F-10/starting", What: "the service is starting for five seconds", Service: service("starting")},
	{Name: "F-10/stopping", What: "the service is stopping for five seconds", Service: service("stopping")},
	{Name: "F-10/killed", What: "the next three writes are carried out, and the service dies before it answers",
		Faults: []Fault{{Function: "Hcn[CMD][roe][edl]*", Action: "after", Code: hnsd.ErrCallFailed.Code, Times: 3}}},
	{Name: "F-10/hang", What: "one call hangs", Faults: []Fault{{Function: "HcnEnumerate*", Action: "hang", Times: 1}}},
	{Name: "F-12", What: "the network is there again under its name and another id, empty",
		Source: "Azure/azure-container-networking#4355, kubernetes/kubernetes#79515",
		Lose:   &LoseRequest{Kind: "Network", Renew: true}},
	{Name: "F-12/absent", What: "the network is gone", Lose: &LoseRequest{Kind: "Network"}},
	{Name: "F-13", What: "a modification succeeds and changes nothing", Source: "kubernetes/kubernetes#131466",
		Needs:  "build 26100; the profile ws2025-pre does it without a rule",
		Faults: []Fault{{Function: "HcnModifyLoadBalancer", Action: "skip"}}},
	{Name: "F-14", What: "load balancers are gone when they are modified", Needs: "build 26100",
		Lose: &LoseRequest{Kind: "LoadBalancer"}},
	{Name: "F-15", What: "a load balancer without backends is refused", Source: "kubernetes/kubernetes#106936",
		Needs: "no rule: HNS refuses it always; a service that loses its last endpoint"},
	{Name: "F-16", What: "an ingress address is empty", Source: "kubernetes/kubernetes#100228, #99964",
		Needs: "no rule: the address in the service's status"},
	{Name: "F-17", What: "the next five load balancers that are read have no port mappings",
		Source: "kubernetes/kubernetes#141488, #141489",
		Faults: []Fault{{Function: "HcnQueryLoadBalancerProperties", Action: "strip", Fields: []string{"PortMappings"},
			Times: 5}}},
	{Name: "F-17/endpoint", What: "the next five endpoints that are read have no addresses",
		Faults: []Fault{{Function: "HcnQueryEndpointProperties", Action: "strip", Fields: []string{"IpConfigurations"},
			Times: 5}}},
	{Name: "F-18", What: "three load balancers are refused for their source address",
		Source: "kubernetes/kubernetes#100962", Needs: "an overlay network",
		Faults: []Fault{{Function: "HcnCreateLoadBalancer", Match: `"SourceVIP":\s*"[^"]`, Action: "fail",
			Code: hnsd.ErrAddressInvalid.Code,
			Text: hnsd.ErrAddressInvalid.Text, Times: 3}}},
	{Name: "F-20", What: "every second load balancer is listed and carries no packets",
		Source: "microsoft/wcnscripts#24",
		Lose:   &LoseRequest{Kind: "LoadBalancer", Percent: 50, PlaneOnly: true}},
	{Name: "F-21", What: "a remote endpoint has the address of a local one",
		Source: "kubernetes/kubernetes#130963, #131138",
		Needs:  "no rule: a remote endpoint with a pod's address, made by somebody else"},
	{Name: "F-22", What: "remote endpoints leak: half of their deletions fail",
		Source: "kubernetes/kubernetes#138000, #135146",
		Faults: []Fault{{Function: "HcnDeleteEndpoint", Probability: 0.5, Seed: 22, Action: "fail",
			Code: hnsd.ErrFailed.Code, Text: hnsd.ErrFailed.Text}}},
	{Name: "F-24", What: "no block of ports is free for another load balancer without direct server return",
		Source: "kubernetes/kubernetes#117783, Azure/AKS#1375",
		Pool:   &PoolRequest{Free: new(int)}},
	{Name: "F-25", What: "every call hangs", Source: "microsoft/SDN, health scripts",
		Faults: []Fault{{Function: "*", Action: "hang"}}},
	{Name: "F-25/slow", What: "every call takes five seconds", Faults: []Fault{{Function: "*", Delay: 5000}}},
	{Name: "F-28", What: "the next look-up of an object fails", Source: "projectcalico/calico#9142",
		Faults: []Fault{{Function: "HcnEnumerate*", Action: "fail", Code: hnsd.ErrServerUnavailable.Code, Times: 1}}},
	{Name: "F-32", What: "the first question for the version fails",
		Needs: "set before the program starts: features are read once",
		Faults: []Fault{{Function: "HNSCall GET /globals/", Action: "fail", Code: hnsd.ErrServiceNotStarted.Code,
			Text: hnsd.ErrServiceNotStarted.Text, Times: 1}}},
	{Name: "F-33", What: "each load balancer takes seconds to make", Source: "kubernetes/kubernetes#109162, #109124",
		Latency: "ws2019-bad"},
	{Name: "F-34", What: "another agent deletes all load balancers", Lose: &LoseRequest{Kind: "LoadBalancer"}},
}

// Scenario finds a row of the catalogue: "F-4", or "F-10/gone" for a variant.
func Scenario(name string) (ScenarioRow, error) {
	i := slices.IndexFunc(scenarios, func(r ScenarioRow) bool { return strings.EqualFold(r.Name, name) })
	if i < 0 {
		return ScenarioRow{}, fmt.Errorf("no scenario %q: see the list", name)
	}
	return scenarios[i], nil
}

// Scenarios is the whole catalogue.
func Scenarios() []ScenarioRow { return slices.Clone(scenarios) }

// play carries out a row: its rules stay, its losses and states happen now.
func (s *Service) play(ctx context.Context, row ScenarioRow) error {
	rules := []*Fault{}
	for _, f := range row.Faults {
		rules = append(rules, &f)
	}
	if err := s.faults.Set(rules); err != nil {
		return err
	}
	if row.Latency != "" {
		table, err := latency.Of(row.Latency)
		if err != nil {
			return err
		}
		s.latency.Set(table)
	}

	if row.Pool != nil {
		if err := s.setPorts(*row.Pool); err != nil {
			return err
		}
	}

	if row.Lose != nil {
		if _, err := s.losses.lose(ctx, *row.Lose); err != nil {
			return err
		}
	}

	if row.Service != nil {
		return s.life.request(ctx, *row.Service)
	}
	return nil
}

// Command proxy-oracle prints which backends upstream's Linux kube-proxy would use, for tests that compare. It reads
// one case per line from standard input, as JSON, and answers each with one line: a JSON list with one text per
// frontend, in the words of the tests of proxy/service. It decides nothing itself: services and slices go through
// upstream's own trackers and CategorizeEndpoints.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/kubernetes/pkg/proxy"
)

// input is one case.
type input struct {
	Node, Zone string
	Service    *v1.Service
	Slices     []*discovery.EndpointSlice
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	decoder := json.NewDecoder(in)
	encoder := json.NewEncoder(out)
	for decoder.More() {
		var c input
		if err := decoder.Decode(&c); err != nil {
			fmt.Fprintln(os.Stderr, "reading a case:", err)
			os.Exit(1)
		}
		lines := append(frontends(c, v1.IPv4Protocol), frontends(c, v1.IPv6Protocol)...)
		if err := encoder.Encode(lines); err != nil {
			fmt.Fprintln(os.Stderr, "writing an answer:", err)
			os.Exit(1)
		}
	}

	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "writing answers:", err)
		os.Exit(1)
	}
}

// frontends returns the lines for one case and one address family.
func frontends(c input, family v1.IPFamily) []string {
	services := proxy.NewServiceChangeTracker(family, nil, nil)
	services.Update(nil, c.Service)
	ports := proxy.ServicePortMap{}
	ports.Update(services)

	changes := proxy.NewEndpointsChangeTracker(family, c.Node, nil, nil)
	for _, s := range c.Slices {
		changes.EndpointSliceUpdate(s, false)
	}
	endpoints := proxy.EndpointsMap{}
	endpoints.Update(changes)

	var lines []string
	for name, info := range ports {
		cluster, local, _, _ := proxy.CategorizeEndpoints(endpoints[name], info, c.Node,
			map[string]string{v1.LabelTopologyZone: c.Zone})
		lines = append(lines, portLines(name, info, list(cluster), list(local))...)
		if number := info.NodePort(); number != 0 {
			which := "node"
			if family == v1.IPv6Protocol {
				which = "node6"
			}
			lines = append(lines, line("node port", which, number, info, external(info, list(cluster), list(local))))
		}
	}
	for name, port := range ports.HealthCheckNodePorts() {
		lines = append(lines, fmt.Sprintf("health %s %s %d = %d", family, name, port,
			endpoints.LocalReadyEndpoints()[name]))
	}
	return lines
}

func portLines(name proxy.ServicePortName, info proxy.ServicePort, cluster, local string) []string {
	internal := cluster
	if info.InternalPolicyLocal() {
		internal = local
	}
	internal += affinity(info)
	lines := []string{line("cluster IP", info.ClusterIP().String(), info.Port(), info, internal)}
	for _, ip := range info.ExternalIPs() {
		lines = append(lines, line("external IP", ip.String(), info.Port(), info, external(info, cluster, local)))
	}
	for _, ip := range info.LoadBalancerVIPs() {
		text := external(info, cluster, local)
		if ranges := info.LoadBalancerSourceRanges(); len(ranges) > 0 {
			text += fmt.Sprintf(" from %v", prefixes(ranges))
		}
		lines = append(lines, line("ingress IP", ip.String(), info.Port(), info, text))
	}
	return lines
}

func prefixes(ranges []*net.IPNet) []string {
	var out []string
	for _, r := range ranges {
		out = append(out, r.String())
	}
	return out
}

func line(kind, vip string, port int, info proxy.ServicePort, backends string) string {
	return fmt.Sprintf("%s %s %d/%s -> %s", kind, vip, port, strings.ToLower(string(info.Protocol())), backends)
}

// external returns the backends for clients outside the cluster, which depend on the policy, and those for clients
// inside.
func external(info proxy.ServicePort, cluster, local string) string {
	if info.ExternalPolicyLocal() {
		return local + " | internal " + cluster + affinity(info)
	}
	return cluster + affinity(info)
}

func affinity(info proxy.ServicePort) string {
	if info.SessionAffinityType() != v1.ServiceAffinityClientIP {
		return ""
	}
	return fmt.Sprintf(" affinity %ds", info.StickyMaxAgeSeconds())
}

func list(endpoints []proxy.Endpoint) string {
	var out []string
	for _, e := range endpoints {
		text := e.String()
		if e.IsLocal() {
			text += "*"
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

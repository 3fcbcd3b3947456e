package kernel

import (
	"net/netip"
	"slices"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// Node access (Options.NodeAccess) must not prevent the service's own frontend from working. Some versions of HNS may
// accept only one load balancer per port of the node, regardless of its address, and answer "exists" to the second. So
// a load balancer for node access is written only while that of the service's own frontend is as wanted. If HNS
// answers "exists" to either of the two, node access of that frontend is given up until the service releases the
// frontend, and the service has a problem that reports it.

// access decides when node access is written and when it is given up.
type access struct {
	*session
	known   *known
	demand  *demand
	targets *targets
	report  *report
	// consider plans a target. It is Proxy.consider.
	consider func(*target)
	// apply updates the targets to what services want. It is Proxy.applyServices.
	apply func([]service.State)
}

// isNodeAccess reports whether a target is a load balancer for node access.
func (t *target) isNodeAccess() bool { return t.f != nil && t.f.Kind == balance.NodeAccess }

// awaits reports whether a target is for node access and must wait, because its frontend is not as wanted yet.
func (a *access) awaits(t *target) bool {
	if !t.isNodeAccess() {
		return false
	}
	main := a.targets.at(balance.AccessedBy(t.key))
	return main != nil && !main.done
}

// follow plans the node access of a frontend that is as wanted now.
func (a *access) follow(main *target) {
	if main.f == nil || main.f.Kind != service.NodePort {
		return
	}
	for _, addr := range a.known.facts.NodeAddrs {
		if t := a.targets.at(withVIP(main.key, addr)); t != nil && t.isNodeAccess() {
			a.consider(t)
		}
	}
}

// giveUp gives up the node access of a target's frontend if err is "exists" and node access may be the cause. It then
// plans the frontends of the service again and returns true.
func (a *access) giveUp(t *target, err error) bool {
	facts := &a.known.facts
	if !facts.NodeAccess || hns.ClassOf(err) != hns.Exists || t.f == nil {
		return false
	}

	key := t.key
	switch t.f.Kind {
	case balance.NodeAccess:
		key = balance.AccessedBy(t.key)
	case service.NodePort:
		derived := func(addr netip.Addr) bool { return a.targets.wants(withVIP(key, addr)) }
		if !slices.ContainsFunc(facts.NodeAddrs, derived) {
			return false
		}
	case service.ExternalIP, service.Ingress:
	default:
		return false
	}
	if facts.AccessRefused[key] != "" {
		return false
	}

	a.logger.Info("HNS refuses the node's own access to a frontend; going on without it", "frontend", key.String(),
		"err", err)
	if facts.AccessRefused == nil {
		facts.AccessRefused = map[service.Key]string{}
	}
	facts.AccessRefused[key] = err.Error()
	a.report.touch(t.service)
	if s := a.demand.services[t.service]; s != nil {
		a.apply([]service.State{s.again()})
	}
	return true
}

func withVIP(key service.Key, vip netip.Addr) service.Key {
	key.VIP = vip
	return key
}

// accessProblem returns the problem that a frontend does without node access; the zero Problem if that is not so.
func (d *demand) accessProblem(name string, key service.Key) service.Problem {
	why := d.derive.facts.AccessRefused[key]
	if why == "" {
		return service.Problem{}
	}
	return service.Problem{Service: name, Reason: reasonFromNode,
		Text: key.String() +
			": programs of this node do not reach it, others do, because HNS refuses what node access needs (--node-access): " + why}
}

// reasonFromNode is the reason of problems of node access.
const reasonFromNode = "NodePortFromNode"

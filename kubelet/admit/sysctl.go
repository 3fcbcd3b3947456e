package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/node/util/sysctl"
)

// safeSysctls are the kernel parameters that affect only the pod, with the first kernel that has each of them per
// namespace (upstream's pkg/kubelet/sysctl of 1.36.3).
var safeSysctls = []struct{ name, kernel string }{
	{"kernel.shm_rmid_forced", ""},
	{"net.ipv4.ip_local_port_range", ""},
	{"net.ipv4.tcp_syncookies", ""},
	{"net.ipv4.ping_group_range", ""},
	{"net.ipv4.ip_unprivileged_port_start", ""},
	{"net.ipv4.ip_local_reserved_ports", "3.16"},
	{"net.ipv4.tcp_keepalive_time", "4.5"},
	{"net.ipv4.tcp_fin_timeout", "4.6"},
	{"net.ipv4.tcp_keepalive_intvl", "4.5"},
	{"net.ipv4.tcp_keepalive_probes", "4.5"},
	{"net.ipv4.tcp_rmem", "4.15"},
	{"net.ipv4.tcp_wmem", "4.15"},
}

// Sysctls are the kernel parameters that pods may set: whole names, and beginnings of names.
type Sysctls struct {
	names, prefixes map[string]sysctl.Namespace
}

// NewSysctls lets pods set what is safe on a kernel, and what the administrator names: a name, or its beginning and a
// *. What the administrator names is not checked. kernel is empty on systems that have no such parameters.
func NewSysctls(kernel string, allowed []string) *Sysctls {
	r := &Sysctls{names: map[string]sysctl.Namespace{}, prefixes: map[string]sysctl.Namespace{}}
	running, err := version.ParseGeneric(kernel)
	for _, s := range safeSysctls {
		if kernel != "" && (s.kernel == "" || err == nil && running.AtLeast(version.MustParseGeneric(s.kernel))) {
			r.names[s.name], _, _ = sysctl.GetNamespace(s.name)
		}
	}
	for _, pattern := range allowed {
		ns, name, _ := sysctl.GetNamespace(pattern)
		if strings.HasSuffix(pattern, "*") {
			r.prefixes[name] = ns
		} else {
			r.names[name] = ns
		}
	}
	return r
}

// refuse says which parameter a pod may not set, in upstream's words; nil when it may set them all.
func (r *Sysctls) refuse(p *v1.Pod) *Refusal {
	if p.Spec.SecurityContext == nil {
		return nil
	}
	for _, s := range p.Spec.SecurityContext.Sysctls {
		if err := r.check(sysctl.NormalizeName(s.Name), p); err != nil {
			return &Refusal{"SysctlForbidden", "forbidden sysctl: " + err.Error()}
		}
	}
	return nil
}

// check returns why the pod may not set the parameter, nil if it may. A parameter of a namespace that the pod shares
// with the node is never allowed: it would change the node.
func (r *Sysctls) check(name string, p *v1.Pod) error {
	ns, known := r.names[name]
	for prefix, of := range r.prefixes {
		if !known && strings.HasPrefix(name, prefix) {
			ns, known = of, true
		}
	}
	switch {
	case !known:
		return fmt.Errorf("%q not allowlisted", name)
	case ns == sysctl.IPCNamespace && p.Spec.HostIPC, ns == sysctl.NetNamespace && p.Spec.HostNetwork:
		return fmt.Errorf("%q not allowed with host %s enabled", name, ns)
	}
	return nil
}

package dns

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Longest names, in characters: of a DNS label (RFC 1035), and of the kernel's host name (Linux: HOST_NAME_MAX).
const (
	maxLabel  = 63
	maxKernel = 64
)

// Name is the name of a pod.
type Name struct {
	Host   string // at most 63 characters
	Domain string // <subdomain>.<namespace>.svc.<cluster domain>; empty without a subdomain
	// Kernel is the host name that the pod's programs see: Host, or the whole name if setHostnameAsFQDN is set.
	Kernel string
}

// NameOf works out the name of a pod. A pod on the host's network sees the node's name. An error means that the pod's
// spec is not valid; it has upstream's words.
func NameOf(p *v1.Pod, nodeName, clusterDomain string) (Name, error) {
	n := Name{Host: p.Name}
	switch {
	case p.Spec.HostnameOverride != nil:
		n.Host = *p.Spec.HostnameOverride
		if bad := validation.IsDNS1123Subdomain(n.Host); len(bad) > 0 {
			return n, fmt.Errorf("pod HostnameOverride %q is not a valid DNS subdomain: %s", n.Host,
				strings.Join(bad, ";"))
		}
	case p.Spec.Hostname != "":
		n.Host = p.Spec.Hostname
		if bad := validation.IsDNS1123Label(n.Host); len(bad) > 0 {
			return n, fmt.Errorf("pod Hostname %q is not a valid DNS label: %s", n.Host, strings.Join(bad, ";"))
		}
	}

	if len(n.Host) > maxLabel {
		if n.Host = strings.TrimRight(n.Host[:maxLabel], "-."); n.Host == "" {
			return n, fmt.Errorf("hostname for pod %q was invalid: all of it are dashes and dots", p.Name)
		}
	}
	if p.Spec.Subdomain != "" && p.Spec.HostnameOverride == nil {
		if bad := validation.IsDNS1123Label(p.Spec.Subdomain); len(bad) > 0 {
			return n, fmt.Errorf("pod Subdomain %q is not a valid DNS label: %s", p.Spec.Subdomain,
				strings.Join(bad, ";"))
		}
		n.Domain = p.Spec.Subdomain + "." + p.Namespace + ".svc." + clusterDomain
	}

	n.Kernel = n.Host
	if p.Spec.HostNetwork {
		n.Kernel = nodeName
		return n, nil
	}

	if n.Domain != "" && p.Spec.SetHostnameAsFQDN != nil && *p.Spec.SetHostnameAsFQDN {
		n.Kernel = n.Host + "." + n.Domain
		if len(n.Kernel) > maxKernel {
			return n,
				fmt.Errorf(
					"failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
					n.Kernel, maxKernel, len(n.Kernel))
		}
	}
	return n, nil
}

package dra

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reference is how a pod names a claim.
type reference struct {
	key claimKey
	// generated: the claim was made for the pod from a template, so that it must belong to it.
	generated bool
}

// Errors of a pod whose claims cannot be named; the words are upstream's.
var (
	errNotCreated  = errors.New("ResourceClaim not created yet")
	errUnsupported = errors.New("none of the supported fields are set")
)

// referencesOf returns the claims of a pod. Those that were not generated on purpose are left out.
func referencesOf(p *v1.Pod) (out []reference, err error) {
	for i := range p.Spec.ResourceClaims {
		name, generated, err := nameOf(p, &p.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name != "" {
			out = append(out, reference{claimKey{p.Namespace, name}, generated})
		}
	}
	if st := p.Status.ExtendedResourceClaimStatus; st != nil {
		out = append(out, reference{key: claimKey{p.Namespace, st.ResourceClaimName}})
	}
	return out, nil
}

// nameOf returns the name of a claim, "" for one that was not generated on purpose.
func nameOf(p *v1.Pod, c *v1.PodResourceClaim) (name string, generated bool, err error) {
	switch {
	case c.ResourceClaimName != nil:
		return *c.ResourceClaimName, false, nil
	case c.ResourceClaimTemplateName == nil:
		return "", false, fmt.Errorf(`pod "%s/%s", spec.resourceClaim %q: %w`, p.Namespace, p.Name, c.Name,
			errUnsupported)
	}
	for _, st := range p.Status.ResourceClaimStatuses {
		if st.Name != c.Name {
			continue
		}
		if st.ResourceClaimName == nil {
			return "", true, nil
		}
		return *st.ResourceClaimName, true, nil
	}
	return "", false, fmt.Errorf(`pod "%s/%s": %w`, p.Namespace, p.Name, errNotCreated)
}

// checkClaim returns why a pod may not use a claim now.
func checkClaim(p *v1.Pod, ref reference, c *resourcev1.ResourceClaim) error {
	if ref.generated && !metav1.IsControlledBy(c, p) {
		return fmt.Errorf("ResourceClaim %s/%s was not created for Pod %s/%s (Pod is not owner)", c.Namespace, c.Name,
			p.Namespace, p.Name)
	}
	reserved := slices.ContainsFunc(c.Status.ReservedFor,
		func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == p.UID })
	if !reserved {
		return fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", p.Name, p.UID, c.Name, c.UID)
	}
	if c.Status.Allocation == nil {
		return fmt.Errorf("ResourceClaim %s: not allocated", c.Name)
	}
	return nil
}

// driversOf returns the drivers of the devices that were allocated to a claim.
func driversOf(c *resourcev1.ResourceClaim) []string {
	var out []string
	for _, r := range c.Status.Allocation.Devices.Results {
		if !slices.Contains(out, r.Driver) {
			out = append(out, r.Driver)
		}
	}
	slices.Sort(out)
	return out
}

// share is what a container has of a claim: the devices for one request of it, or all for "".
type share struct {
	key     claimKey
	request string
	// title is the name in the container's status.
	title string
}

// sharesOf returns what a container of a pod has of the pod's claims.
func sharesOf(p *v1.Pod, c *v1.Container) (out []share, err error) {
	for i := range p.Spec.ResourceClaims {
		of := &p.Spec.ResourceClaims[i]
		for _, want := range c.Resources.Claims {
			if want.Name != of.Name {
				continue
			}
			name, _, err := nameOf(p, of)
			if err != nil {
				return nil, err
			}
			if name == "" {
				continue
			}
			title := "claim:" + want.Name
			if want.Request != "" {
				title += "/" + want.Request
			}
			out = append(out, share{claimKey{p.Namespace, name}, want.Request, title})
		}
	}
	return append(out, extendedSharesOf(p, c)...), nil
}

// extendedSharesOf returns what a container has because it asks for extended resources that a claim serves. They are
// not shown in its status.
func extendedSharesOf(p *v1.Pod, c *v1.Container) (out []share) {
	st := p.Status.ExtendedResourceClaimStatus
	if st == nil {
		return nil
	}
	for _, m := range st.RequestMappings {
		asked := c.Resources.Requests[v1.ResourceName(m.ResourceName)]
		if m.ContainerName == c.Name && !asked.IsZero() {
			out = append(out, share{key: claimKey{p.Namespace, st.ResourceClaimName}, request: m.RequestName})
		}
	}
	return out
}

// has reports whether a device is for a share. A part of a request (request/subrequest) has the devices of the request.
func (s share) has(d Device) bool {
	base, _, _ := strings.Cut(s.request, "/")
	return s.request == "" || len(d.Requests) == 0 || slices.Contains(d.Requests, s.request) ||
		slices.Contains(d.Requests, base)
}

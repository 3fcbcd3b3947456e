package dra

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podWith makes a pod whose claims are given as "inner=claim", or "inner:claim" for one that was made from a template;
// no claim: not made yet, "-": on purpose none.
func podWith(uid string, claims ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-" + uid, Namespace: "ns", UID: types.UID(uid)},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
	for _, text := range claims {
		inner, name, direct := strings.Cut(text, "=")
		if direct {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims,
				v1.PodResourceClaim{Name: inner, ResourceClaimName: &name})
			continue
		}
		template := "template"
		inner, name, _ = strings.Cut(text, ":")
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims,
			v1.PodResourceClaim{Name: inner, ResourceClaimTemplateName: &template})
		if name == "" {
			continue
		}
		st := v1.PodResourceClaimStatus{Name: inner}
		if name != "-" {
			st.ResourceClaimName = &name
		}
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, st)
	}
	return p
}

// uses makes the pod's first container use claims, given as "inner" or "inner/request".
func uses(p *v1.Pod, claims ...string) *v1.Pod {
	for _, text := range claims {
		name, request, _ := strings.Cut(text, "/")
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims,
			v1.ResourceClaim{Name: name, Request: request})
	}
	return p
}

// extended gives the pod's first container an extended resource that a claim serves.
func extended(p *v1.Pod, claim, request string) *v1.Pod {
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: claim,
		RequestMappings: []v1.ContainerExtendedResourceRequest{
			{ContainerName: "app", ResourceName: "example.com/gpu", RequestName: request},
			{ContainerName: "other", ResourceName: "example.com/gpu", RequestName: "no"}}}
	return p
}

func TestReferences(t *testing.T) {
	for _, c := range []struct {
		pod  *v1.Pod
		want string
	}{
		{podWith("1"), "[]"},
		{podWith("1", "a=x", "b:y", "c:-"), "[{{ns x} false} {{ns y} true}]"},
		{podWith("1", "a=x", "b:"), `pod "ns/pod-1": ResourceClaim not created yet`},
		{extended(podWith("1", "a=x"), "ext", "r"), "[{{ns x} false} {{ns ext} false}]"},
		{&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
			Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "a"}}}},
			`pod "ns/p", spec.resourceClaim "a": none of the supported fields are set`},
	} {
		refs, err := referencesOf(c.pod)
		got := fmt.Sprint(refs)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.pod.Spec.ResourceClaims, got, c.want)
		}
	}
}

func TestShares(t *testing.T) {
	p := uses(podWith("1", "a=x", "b:y", "c:-"), "b/big", "b/small", "a", "c")
	got, err := sharesOf(p, &p.Spec.Containers[0])
	if want := "[{{ns x}  claim:a} {{ns y} big claim:b/big} {{ns y} small claim:b/small}]"; err != nil ||
		fmt.Sprint(got) != want {
		t.Errorf("%v %v, want %s", got, err, want)
	}
	p = extended(podWith("1"), "ext", "r")
	if got, err := sharesOf(p, &p.Spec.Containers[0]); err != nil || fmt.Sprint(got) != "[{{ns ext} r }]" {
		t.Errorf("extended resource: %v %v", got, err)
	}
	p.Spec.Containers[0].Resources.Requests = nil
	if got, _ := sharesOf(p, &p.Spec.Containers[0]); len(got) > 0 {
		t.Errorf("a container that asks for no extended resource has %v", got)
	}

	big := Device{Requests: []string{"big"}}
	for request, want := range map[string]bool{"": true, "big": true, "big/part": true, "small": false} {
		if (share{request: request}).has(big) != want {
			t.Errorf("a device for big, and the request %q: want %t", request, want)
		}
	}
	if !(share{request: "small"}).has(Device{}) {
		t.Error("a device for no request is for all")
	}
}

func TestCheckClaim(t *testing.T) {
	yes := true
	p := podWith("1")
	good := func() *resourcev1.ResourceClaim { return allocated("x", "1", "d") }

	for title, c := range map[string]struct {
		edit      func(*resourcev1.ResourceClaim)
		generated bool
		want      string
	}{
		"as it should be": {func(*resourcev1.ResourceClaim) {}, false, ""},
		"generated, another's": {func(*resourcev1.ResourceClaim) {}, true,
			"ResourceClaim ns/x was not created for Pod ns/pod-1 (Pod is not owner)"},
		"generated": {func(c *resourcev1.ResourceClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: &yes}}
		}, true, ""},
		"reserved for nobody": {func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil }, false,
			"pod pod-1 (1) is not allowed to use ResourceClaim x (uid-x)"},
		"without any allocation": {func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }, false,
			"ResourceClaim x: not allocated"},
		"reserved for two, ours": {func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{UID: "2"})
		}, false, ""},
		"reserved for another": {func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor[0].UID = "2" }, false,
			"pod pod-1 (1) is not allowed to use ResourceClaim x (uid-x)"},
		"no devices are no error": {func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results = nil },
			false, ""},
	} {
		claim := good()
		c.edit(claim)
		err := checkClaim(p, reference{claimKey{"ns", "x"}, c.generated}, claim)
		if err == nil && c.want != "" || err != nil && err.Error() != c.want {
			t.Errorf("%s: %v, want %s", title, err, c.want)
		}
	}
}

// allocated makes a claim that is reserved for a pod and has a device of each driver.
func allocated(name, pod string, drivers ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		UID: types.UID("uid-" + name)}}
	for _, uid := range strings.Fields(pod) {
		c.Status.ReservedFor = append(c.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", UID: types.UID(uid)})
	}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, d := range drivers {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: d, Pool: "p", Device: "0"})
	}
	return c
}

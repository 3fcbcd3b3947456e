package runtimetest

import (
	"slices"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// lists checks the filters of lists. The kubelet finds the containers of a pod by its label, and ours among those of
// others.
func lists(c *check) {
	one, two := c.box("a"), c.box("b")
	first, second := c.sandbox(one), c.sandbox(two)
	app := c.start(c.create(c.creation(first, one, "sleep")))
	other := c.create(c.creation(second, two, "sleep"))
	for _, want := range []struct {
		filter *cri.ContainerFilter
		ids    []string
	}{
		{&cri.ContainerFilter{PodSandboxId: first}, []string{app}},
		{&cri.ContainerFilter{LabelSelector: map[string]string{labelPodUID: two.Metadata.Uid}}, []string{other}},
		{&cri.ContainerFilter{Id: app, State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_CREATED}},
			nil},
		{&cri.ContainerFilter{LabelSelector: map[string]string{labelPodUID: "absent"}}, nil},
	} {
		r, err := c.runtime.ListContainers(c.ctx, &cri.ListContainersRequest{Filter: want.filter})
		c.must(err)
		var got []string
		for _, x := range r.Containers {
			got = append(got, x.Id)
		}
		if !slices.Equal(got, want.ids) {
			c.t.Errorf("%v lists %v, want %v", want.filter, got, want.ids)
		}
	}

	// Sandboxes are found by state and label together.
	_, err := c.runtime.StopPodSandbox(c.ctx, &cri.StopPodSandboxRequest{PodSandboxId: second})
	c.must(err)
	r, err := c.runtime.ListPodSandbox(c.ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{
		State:         &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_NOTREADY},
		LabelSelector: map[string]string{labelPodUID: two.Metadata.Uid}}})
	c.must(err)
	if len(r.Items) != 1 || r.Items[0].Id != second || r.Items[0].Labels[labelPodUID] != two.Metadata.Uid {
		c.t.Errorf("sandboxes that are not ready: %v", r.Items)
	}
}

// absentImages checks that the status of an absent image is an answer without an image, not an error, and that
// removing one succeeds.
func absentImages(c *check) {
	absent := &cri.ImageSpec{Image: "testkit.local/absent:1"}
	r, err := c.images.ImageStatus(c.ctx, &cri.ImageStatusRequest{Image: absent})
	c.must(err)
	if r.Image != nil {
		c.t.Errorf("an absent image: %v", r.Image)
	}
	_, err = c.images.RemoveImage(c.ctx, &cri.RemoveImageRequest{Image: absent})
	c.must(err)

	r, err = c.images.ImageStatus(c.ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: c.host.Image}})
	c.must(err)
	if r.Image == nil || r.Image.Size == 0 || !slices.Contains(r.Image.RepoTags, c.host.Image) {
		c.t.Errorf("a present image: %v", r.Image)
	}
}

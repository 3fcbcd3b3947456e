package pod

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
)

// Image is the outcome of the last attempt to make an image present. Ref is the runtime's name for it; empty if it is
// missing.
type Image struct {
	Ref     string
	User    ImageUser
	Failure *Failure
}

// ImageUser is the user that an image names for its process: by number or by name; zero for none.
type ImageUser struct {
	UID  *int64 `json:",omitempty"`
	Name string `json:",omitempty"`
}

// imageStates are the images that a pod needs, by container name, or VolumeImage.
type imageStates map[string]Image

// imageKey is the key of images that an EnsureImage action is about.
func imageKey(a Action) string {
	if a.Volume != "" {
		return VolumeImage(a.Volume)
	}
	return a.Name
}

// WantedImage returns the image that an EnsureImage action asks for, as the pod names it. ok is false if the pod names
// none.
func WantedImage(p *v1.Pod, a Action) (name string, policy v1.PullPolicy, ok bool) {
	if p == nil {
		return "", "", false
	}

	if a.Volume == "" {
		c := desired.Find(p, a.Name)
		if c == nil {
			return "", "", false
		}
		return c.Image, c.ImagePullPolicy, true
	}

	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Name == a.Volume && v.Image != nil {
			return v.Image.Reference, v.Image.PullPolicy, true
		}
	}
	return "", "", false
}

// failure returns why an image that a container needs, its own or that of a volume, is missing; nil if none failed.
func (m imageStates) failure(p *v1.Pod, c *v1.Container) *Failure {
	if f := m[c.Name].Failure; f != nil {
		return f
	}
	for _, v := range desired.MountedImages(p, c) {
		if f := m[VolumeImage(v)].Failure; f != nil {
			return f
		}
	}
	return nil
}

// keepWanted forgets the images of containers that ask for another one than in the earlier version of the pod.
func (m imageStates) keepWanted(before, now *v1.Pod) {
	for name := range m {
		if strings.HasPrefix(name, "/") {
			continue // of a volume, which cannot change
		}
		was, is := desired.Find(before, name), desired.Find(now, name)
		if was == nil || is == nil || was.Image != is.Image {
			delete(m, name)
		}
	}
}

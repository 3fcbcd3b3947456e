package sources

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/files"
	"porthole.dev/porthole/kubelet/volume/podcert"
)

// The kinds of API objects whose keys volumes show as files.
const (
	ConfigMap = "ConfigMap"
	Secret    = "Secret"
)

// Objects reads what volumes show. An object that does not exist is an error for which apierrors.IsNotFound is true.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// API is where files come from beyond the pod itself.
type API struct {
	Objects Objects      // nil: there is no API server
	Bundles TrustBundles // nil: switched off
	// Token returns a service account token for the pod.
	Token func(context.Context, *v1.ServiceAccountTokenProjection) (string, error)
	// Certificate returns a private key and a chain of certificates for the pod; nil if that is switched off.
	Certificate func(context.Context, podcert.Key, *v1.PodCertificateProjection) (key, chain []byte, err error)
}

// Job is one volume of one pod whose files are read.
type Job struct {
	API
	Pod         *v1.Pod
	Volume      string          // its name
	Allocatable v1.ResourceList // of the node: the default of resourceFieldRef limits
}

// Source is where files of a volume come from. Most volumes have one; a projected volume has any number.
type Source interface {
	// Need returns what the files depend on.
	Need() Need
	// Files returns the files as they are now.
	Files(ctx context.Context, j Job) (files.Content, error)
}

// Need is what the files of a source depend on: they change when it changes. The zero value is nothing.
type Need struct {
	// Object is the kind of an object (ConfigMap or Secret), Name its name in the pod's namespace; both may be empty.
	// Of TrustBundle, which are the cluster's, and PodCertificate, which are the node's, there is no name.
	Object, Name string
	// Token: the files hold a service account token, which expires.
	Token bool
	// Pod: the files show labels, annotations or resources of the pod itself.
	Pod bool
}

// selection is which keys of an object become which files. Without items, every key becomes a file of its name.
type selection struct {
	items []v1.KeyToPath
	mode  int32 // of files whose item has none
	// optional allows that the object, or a key of items, does not exist.
	optional bool
}

// newSelection has the default mode of ConfigMaps and Secrets unless the volume has one.
func newSelection(items []v1.KeyToPath, mode *int32, optional *bool) selection {
	s := selection{items: items, mode: v1.ConfigMapVolumeSourceDefaultMode, optional: optional != nil && *optional}
	if mode != nil {
		s.mode = *mode
	}
	return s
}

// pick returns the files of an object's keys. object is upstream's word for it in the error: config or secret.
func (s selection) pick(object string, keys map[string][]byte) (files.Content, error) {
	out := files.Content{}
	if len(s.items) == 0 {
		for k, data := range keys {
			out[k] = files.File{Data: data, Mode: s.mode}
		}
		return out, nil
	}

	for _, item := range s.items {
		data, ok := keys[item.Key]
		if !ok {
			if s.optional {
				continue
			}
			return nil, fmt.Errorf("references non-existent %s key: %s", object, item.Key)
		}
		f := files.File{Data: data, Mode: s.mode}
		if item.Mode != nil {
			f.Mode = *item.Mode
		}
		out[item.Path] = f
	}
	return out, nil
}

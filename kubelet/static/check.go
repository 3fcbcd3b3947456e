package static

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// check returns an error for a pod that the API server would refuse too, as far as the node's work depends on it:
// names that become folders and labels, references between parts of the pod, and references to API objects, which a
// static pod may not have.
func check(p *v1.Pod) error {
	errs := validation.ValidateObjectMeta(&p.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	spec := field.NewPath("spec")
	if strings.ContainsAny(string(p.UID), `/\`) || strings.Contains(string(p.UID), "..") || len(p.UID) > 128 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "uid"), p.UID, "it must be able to name a folder"))
	}

	volumes := sets.New[string]()
	for i, v := range p.Spec.Volumes {
		path := spec.Child("volumes").Index(i).Child("name")
		errs = append(errs, label(path, v.Name)...)
		if volumes.Has(v.Name) {
			errs = append(errs, field.Duplicate(path, v.Name))
		}
		volumes.Insert(v.Name)
	}

	if len(p.Spec.Containers) == 0 {
		errs = append(errs, field.Required(spec.Child("containers"), ""))
	}
	if len(p.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(spec.Child("ephemeralContainers"), "cannot be set on create"))
	}

	names := sets.New[string]()
	for child, list := range map[string][]v1.Container{"initContainers": p.Spec.InitContainers,
		"containers": p.Spec.Containers} {
		for i := range list {
			errs = append(errs, checkContainer(&list[i], spec.Child(child).Index(i), names, volumes)...)
		}
	}

	known := []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}
	if !slices.Contains(known, p.Spec.RestartPolicy) {
		errs = append(errs, field.NotSupported(spec.Child("restartPolicy"), p.Spec.RestartPolicy, known))
	}

	policies := []v1.DNSPolicy{v1.DNSClusterFirst, v1.DNSClusterFirstWithHostNet, v1.DNSDefault, v1.DNSNone}
	if !slices.Contains(policies, p.Spec.DNSPolicy) {
		errs = append(errs, field.NotSupported(spec.Child("dnsPolicy"), p.Spec.DNSPolicy, policies))
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		errs = append(errs, field.Invalid(spec.Child("terminationGracePeriodSeconds"), *g,
			"must be greater than or equal to 0"))
	}
	if d := p.Spec.ActiveDeadlineSeconds; d != nil && *d < 1 {
		errs = append(errs, field.Invalid(spec.Child("activeDeadlineSeconds"), *d,
			"must be between 1 and 4294967295, inclusive"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("invalid pod: %w", errs.ToAggregate())
	}
	if what := reference(&p.Spec); what != "" {
		return fmt.Errorf("static pods may not reference %s", what)
	}

	return nil
}

func label(path *field.Path, value string) field.ErrorList {
	var errs field.ErrorList
	for _, m := range utilvalidation.IsDNS1123Label(value) {
		errs = append(errs, field.Invalid(path, value, m))
	}
	return errs
}

// checkContainer checks one container of a static pod, as far as the kubelet relies on it: no API server has validated
// the manifest. It adds the container's name to names, which the pod's other containers must not have. volumes are the
// names of the pod's volumes.
func checkContainer(c *v1.Container, path *field.Path, names, volumes sets.Set[string]) field.ErrorList {
	errs := label(path.Child("name"), c.Name)
	if names.Has(c.Name) {
		errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
	}

	names.Insert(c.Name)
	if strings.TrimSpace(c.Image) == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}

	pulls := []v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent, v1.PullNever}
	if !slices.Contains(pulls, c.ImagePullPolicy) {
		errs = append(errs, field.NotSupported(path.Child("imagePullPolicy"), c.ImagePullPolicy, pulls))
	}

	for i, m := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		if !volumes.Has(m.Name) {
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		if m.MountPath == "" {
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		}
	}

	for i, port := range c.Ports {
		at := path.Child("ports").Index(i)
		for _, m := range utilvalidation.IsValidPortNum(int(port.ContainerPort)) {
			errs = append(errs, field.Invalid(at.Child("containerPort"), port.ContainerPort, m))
		}
		if port.HostPort != 0 {
			for _, m := range utilvalidation.IsValidPortNum(int(port.HostPort)) {
				errs = append(errs, field.Invalid(at.Child("hostPort"), port.HostPort, m))
			}
		}
	}

	for list, quantities := range map[string]v1.ResourceList{"requests": c.Resources.Requests,
		"limits": c.Resources.Limits} {
		for name, q := range quantities {
			if q.Sign() < 0 {
				errs = append(errs, field.Invalid(path.Child("resources", list).Key(string(name)), q.String(),
					"must be greater than or equal to 0"))
			}
		}
	}

	return errs
}

// reference returns a kind of object that the pod needs from the API, in upstream's words; empty if it needs none.
func reference(s *v1.PodSpec) string {
	if s.ServiceAccountName != "" {
		return "serviceaccounts"
	}

	secrets := len(s.ImagePullSecrets) > 0
	configMaps := false
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for _, from := range list[i].EnvFrom {
				secrets = secrets || from.SecretRef != nil
				configMaps = configMaps || from.ConfigMapRef != nil
			}
			for _, e := range list[i].Env {
				if f := e.ValueFrom; f != nil {
					secrets = secrets || f.SecretKeyRef != nil
					configMaps = configMaps || f.ConfigMapKeyRef != nil
				}
			}
		}
	}

	switch {
	case secrets:
		return "secrets"
	case configMaps:
		return "configmaps"
	case len(s.ResourceClaims) > 0:
		return "resourceclaims"
	}

	for i := range s.Volumes {
		if what := volumeReference(&s.Volumes[i]); what != "" {
			return what
		}
	}
	return ""
}

// volumeReference returns which API object the volume needs, in the words of upstream's error; "" if it needs none.
func volumeReference(v *v1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)"
	case v.Secret != nil:
		return "secrets (via secret volumes)"
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)"
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)"
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims"
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)"
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)"
	case v.Projected == nil:
		return ""
	}

	for _, s := range v.Projected.Sources {
		switch {
		case s.ConfigMap != nil:
			return "configmaps (via projected volumes)"
		case s.Secret != nil:
			return "secrets (via projected volumes)"
		case s.ServiceAccountToken != nil:
			return "serviceaccounts (via projected volumes)"
		case s.ClusterTrustBundle != nil:
			return "clustertrustbundles"
		case s.PodCertificate != nil:
			return "podcertificates"
		}
	}

	return ""
}

package runtime

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
)

// Paths of /proc and /sys that a container with the default procMount cannot see, or can only read; upstream's lists.
var (
	maskedPaths = []string{"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap"}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// merged returns the container's security context. Values that it does not set are the pod's.
func merged(p *v1.Pod, c *v1.Container) v1.SecurityContext {
	var out v1.SecurityContext
	if c.SecurityContext != nil {
		out = *c.SecurityContext.DeepCopy()
	}

	whole := p.Spec.SecurityContext
	if whole == nil {
		return out
	}

	if out.RunAsUser == nil {
		out.RunAsUser = whole.RunAsUser
	}
	if out.RunAsGroup == nil {
		out.RunAsGroup = whole.RunAsGroup
	}
	if out.RunAsNonRoot == nil {
		out.RunAsNonRoot = whole.RunAsNonRoot
	}
	if out.SeccompProfile == nil {
		out.SeccompProfile = whole.SeccompProfile
	}
	if out.AppArmorProfile == nil {
		out.AppArmorProfile = whole.AppArmorProfile
	}
	if out.SELinuxOptions == nil {
		out.SELinuxOptions = whole.SELinuxOptions
	}

	// The options of Windows are merged one by one; a credential spec counts with its name.
	if w := whole.WindowsOptions; w != nil {
		if out.WindowsOptions == nil {
			out.WindowsOptions = &v1.WindowsSecurityContextOptions{}
		}
		o := out.WindowsOptions
		if o.RunAsUserName == nil {
			o.RunAsUserName = w.RunAsUserName
		}
		if o.GMSACredentialSpec == nil && o.GMSACredentialSpecName == nil {
			o.GMSACredentialSpec, o.GMSACredentialSpecName = w.GMSACredentialSpec, w.GMSACredentialSpecName
		}
	}
	return out
}

// checkNonRoot returns an error if a container must not run as root but would. Texts are upstream's.
func checkNonRoot(p *v1.Pod, c *v1.Container, image ImageUser, windows bool) error {
	sc := merged(p, c)
	if sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot {
		return nil
	}

	// Each system has its own names for root.
	where := fmt.Sprintf("(pod: %q, container: %s)", p.Name+"_"+p.Namespace+"("+string(p.UID)+")", c.Name)
	if windows {
		field, user := "runAsUser", image.Name
		if sc.WindowsOptions != nil && sc.WindowsOptions.RunAsUserName != nil {
			field, user = "runAsUserName", *sc.WindowsOptions.RunAsUserName
		}
		if strings.EqualFold(user, "ContainerAdministrator") {
			return fmt.Errorf(
				"container's %s (%s) which will be regarded as root identity and will break non-root policy %s", field,
				user, where)
		}
		return nil
	}

	// The container's user counts before the image's; a user by name cannot be judged.
	switch {
	case sc.RunAsUser != nil && *sc.RunAsUser == 0:
		return fmt.Errorf("container's runAsUser breaks non-root policy %s", where)
	case sc.RunAsUser != nil:
		return nil
	case image.UID != nil && *image.UID == 0, image.UID == nil && image.Name == "":
		return errors.New("container has runAsNonRoot and image will run as root " + where)
	case image.UID == nil:
		return fmt.Errorf(
			"container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s",
			image.Name, where)
	}
	return nil
}

// windowsSecurity returns the user of a container, which is that of its image unless the pod names one, its
// credential, and whether it is a HostProcess container.
func windowsSecurity(p *v1.Pod, c *v1.Container, image ImageUser) *cri.WindowsContainerSecurityContext {
	sec := &cri.WindowsContainerSecurityContext{RunAsUsername: image.Name, HostProcess: desired.HostProcess(p, c)}
	if o := merged(p, c).WindowsOptions; o != nil {
		fillWindows(o, &sec.RunAsUsername, &sec.CredentialSpec)
	}
	return sec
}

// linuxSecurity translates the container's security context, merged with the pod's. What neither says has the default
// of Kubernetes, not that of the runtime; the paths of /proc are hidden unless the container asks for an unmasked
// /proc.
func (o Options) linuxSecurity(p *v1.Pod, c *v1.Container, s ContainerSpec) *cri.LinuxContainerSecurityContext {
	sc := merged(p, c)
	sec := &cri.LinuxContainerSecurityContext{NamespaceOptions: o.namespaces(p, s.Sandbox.IDs),
		SupplementalGroups: s.Sandbox.groups(), SupplementalGroupsPolicy: groupsPolicy(p.Spec.SecurityContext)}
	// An ephemeral container may share the processes of the container that it is to look at.
	if s.TargetID != "" {
		sec.NamespaceOptions.Pid, sec.NamespaceOptions.TargetId = cri.NamespaceMode_TARGET, s.TargetID
	}

	sec.Privileged = sc.Privileged != nil && *sc.Privileged
	sec.ReadonlyRootfs = sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem
	sec.NoNewPrivs = sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation
	user(sec, sc, s.ImageUser)

	if k := sc.Capabilities; k != nil {
		sec.Capabilities = &cri.Capability{}
		for _, x := range k.Add {
			sec.Capabilities.AddCapabilities = append(sec.Capabilities.AddCapabilities, string(x))
		}
		for _, x := range k.Drop {
			sec.Capabilities.DropCapabilities = append(sec.Capabilities.DropCapabilities, string(x))
		}
	}
	// Unmasked is what a container has to ask for.
	if sc.ProcMount == nil || *sc.ProcMount != v1.UnmaskedProcMount {
		sec.MaskedPaths, sec.ReadonlyPaths = maskedPaths, readonlyPaths
	}

	sec.Seccomp = o.seccomp(sc.SeccompProfile, sec.Privileged)
	sec.Apparmor = appArmor(sc.AppArmorProfile)
	sec.SelinuxOptions = seLinux(sc.SELinuxOptions)
	return sec
}

// appArmor returns nil if the container names no profile: then the runtime decides.
func appArmor(a *v1.AppArmorProfile) *cri.SecurityProfile {
	switch {
	case a == nil:
		return nil
	case a.Type == v1.AppArmorProfileTypeUnconfined:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}
	case a.Type == v1.AppArmorProfileTypeLocalhost && a.LocalhostProfile != nil:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: *a.LocalhostProfile}
	}
	return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}
}

// seLinux is nil if neither the pod nor the container says something.
func seLinux(o *v1.SELinuxOptions) *cri.SELinuxOption {
	if o == nil {
		return nil
	}
	return &cri.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// user sets the user and group of a container: those of the spec, or else the user of the image. CRI does not allow a
// group without a user; then the user is root, which the container would have anyway.
func user(sec *cri.LinuxContainerSecurityContext, sc v1.SecurityContext, image ImageUser) {
	switch {
	case sc.RunAsUser != nil:
		sec.RunAsUser = &cri.Int64Value{Value: *sc.RunAsUser}
	case image.UID != nil:
		sec.RunAsUser = &cri.Int64Value{Value: *image.UID}
	case image.Name != "":
		sec.RunAsUsername = image.Name
	}
	if sc.RunAsGroup != nil {
		sec.RunAsGroup = &cri.Int64Value{Value: *sc.RunAsGroup}
		if sec.RunAsUser == nil && sec.RunAsUsername == "" {
			sec.RunAsUser = &cri.Int64Value{Value: 0}
		}
	}
}

// seccomp returns the profile of a container. A profile of the node is a file below SeccompRoot; the API server
// refuses paths that leave it.
func (o Options) seccomp(p *v1.SeccompProfile, privileged bool) *cri.SecurityProfile {
	switch {
	case privileged || p == nil && !o.SeccompDefault || p != nil && p.Type == v1.SeccompProfileTypeUnconfined:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}
	case p != nil && p.Type == v1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost,
			LocalhostRef: filepath.Join(o.SeccompRoot, *p.LocalhostProfile)}
	}
	return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}
}

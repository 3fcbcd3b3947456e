package kubelet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/env"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
)

// startContainer makes a container and starts it. Its postStart hook is another action.
func (e *effects) startContainer(ctx context.Context, j job) []pod.Fact {
	ctx = context.WithoutCancel(ctx)
	p, c := j.pod, pod.FindContainer(j.pod, j.Name)
	if c == nil {
		return dropped(j)
	}

	spec, err := e.containerSpec(ctx, c, j)
	release := sync.OnceValue(func() error {
		if spec.Release == nil {
			return nil
		}
		return spec.Release()
	})
	defer func() { _ = release() }() // for the ways out before it is read below
	if err != nil {
		return []pod.Fact{e.startFailed(j, c, "CreateContainerConfigError", err)}
	}

	at := e.pins.Of(p.UID, j.Name)
	spec.CPUs, spec.Mems, spec.Alone = at.CPUs, at.Mems, at.Alone && e.placed.NoQuota
	spec.Created = func(string) { e.event(p, j.Name, v1.EventTypeNormal, "Created", "Container created") }
	made, err := e.runtime.StartContainer(ctx, spec)
	if changed := release(); changed != nil && err == nil {
		made, err = undo(ctx, e, made, changed)
	}
	e.meter.Life().ImageVolumes(len(imageMounts(p, c, j.imageVolumes)), imageMountFailed(err))
	if err != nil {
		reason := "CreateContainerError"
		var step *runtime.StepError
		if errors.As(err, &step) {
			reason = step.Reason
		}
		f := e.startFailed(j, c, reason, err)
		if made.ID != "" {
			f.Container = &made
		}
		return append([]pod.Fact{f}, e.reread(ctx)...)
	}

	if now := e.pins.Of(p.UID, j.Name).CPUs; now != at.CPUs { // the full checks do it if this fails
		_ = e.placed.Pin(ctx, made.ID, now)
	}
	e.event(p, j.Name, v1.EventTypeNormal, "Started", "Container started")
	e.meter.Container(p, j.Name, "", pod.HostProcess(p, c))
	e.folders.linkLog(p, c.Name, made)
	return []pod.Fact{pod.ContainerStarted{Container: made, Hook: c.Lifecycle != nil && c.Lifecycle.PostStart != nil}}
}

// undo stops a container at once that may have got something else than its mounts. It returns what is left of the
// container, and why it was stopped.
func undo(ctx context.Context, e *effects, made pod.Container, cause error) (pod.Container, error) {
	err := &runtime.StepError{Reason: "RunContainerError",
		Err: errors.Join(cause, e.runtime.StopContainer(ctx, made.ID, 0))}
	if now, ok, readErr := e.runtime.Container(ctx, made.ID); readErr == nil && ok {
		now.SandboxID = made.SandboxID
		made = now
	}
	return made, err
}

// startFailed reports a container that could not be started.
func (e *effects) startFailed(j job, c *v1.Container, reason string, err error) pod.StartFailed {
	if e.windows {
		err = e.images.Explain(err)
	}
	e.meter.Container(j.pod, j.Name, reason, pod.HostProcess(j.pod, c))
	e.event(j.pod, j.Name, v1.EventTypeWarning, "Failed", "Error: "+err.Error())
	return pod.StartFailed{Name: j.Name, Reason: reason, Message: err.Error()}
}

// containerSpec returns what the runtime has to know to make a container. The caller must call its Release even after
// an error.
func (e *effects) containerSpec(ctx context.Context, c *v1.Container, j job) (runtime.ContainerSpec, error) {
	p := j.pod
	box, err := e.sandboxSpec(p, 0)
	if err != nil {
		return runtime.ContainerSpec{}, err
	}

	used, _ := j.runtime.Sandbox()
	box.Handler = used.Handler
	if box.IDs, err = idsOf(e, p, used.Handler); err != nil {
		return runtime.ContainerSpec{}, err
	}
	ips := e.addresses(p, j.runtime)

	vars, err := e.environment(ctx, p, c, ips)
	if err != nil {
		return runtime.ContainerSpec{}, err
	}

	spec := runtime.ContainerSpec{Sandbox: box, SandboxID: j.ID, Container: c, Attempt: j.Attempt, Reset: j.Reset,
		ImageRef:  j.ImageRef,
		ImageUser: runtime.ImageUser{UID: j.user.UID, Name: j.user.Name}, TargetID: targetOf(p, j.Name, j.runtime),
		Command: env.ExpandAll(c.Command, vars), Args: env.ExpandAll(c.Args, vars)}
	values := map[string]string{}
	for _, v := range vars {
		values[v.Name] = v.Value
		spec.Env = append(spec.Env, runtime.KeyValue{Name: v.Name, Value: v.Value})
	}

	if err := addDevices(ctx, e.devices, &spec); err != nil {
		return spec, err
	}
	if err := addClaims(e.claims, &spec); err != nil {
		return spec, err
	}
	spec.Release, err = e.addMounts(&spec, p, ips, func(n string) (string, bool) { v, ok := values[n]; return v, ok })
	spec.Mounts = append(spec.Mounts, imageMounts(p, c, j.imageVolumes)...)
	return spec, err
}

// addresses returns the addresses that the containers of a pod get in their environment and hosts file. A pod with
// hostNetwork has the node's addresses. On Windows the runtime gives the host's network to HostProcess pods only
// (docs/windows-facts.md): any other pod has an address of its own, in the sandbox's status.
func (e *effects) addresses(p *v1.Pod, r *pod.Runtime) []string {
	box, _ := r.Sandbox()
	if p.Spec.HostNetwork && (!e.windows || len(box.IPs) == 0) {
		return e.nodeIPs()
	}
	return box.IPs
}

// environment works out the environment variables of a container.
func (e *effects) environment(ctx context.Context, p *v1.Pod, c *v1.Container, ips []string) ([]env.Var, error) {
	return env.Container(env.Inputs{Pod: p, Container: c, PodIPs: ips, HostIPs: e.nodeIPs(),
		NodeAllocatable: e.allocatable(), Services: e.objects.Services(p.Namespace),
		ConfigMap: func(name string) (*v1.ConfigMap, error) {
			cm, err := e.objects.ConfigMap(ctx, p.Namespace, name)
			if err != nil {
				return nil, notFound("configmap", p.Namespace, name, err)
			}
			return cm, nil
		},
		Secret: func(name string) (*v1.Secret, error) {
			s, err := e.objects.Secret(ctx, p.Namespace, name)
			if err != nil {
				return nil, notFound("secret", p.Namespace, name, err)
			}
			return s, nil
		},
		File: func(volume, path string) (string, error) {
			text, err := e.volumes.ReadFile(p, volume, path)
			if errors.Is(err, fs.ErrNotExist) {
				err = env.ErrNotFound
			}
			return text, err
		}})
}

// targetOf returns the id of the container whose processes an ephemeral container wants to see; empty for none.
func targetOf(p *v1.Pod, name string, r *pod.Runtime) string {
	for _, e := range p.Spec.EphemeralContainers {
		if e.Name == name && e.TargetContainerName != "" {
			c, _ := r.Latest(e.TargetContainerName)
			return c.ID
		}
	}
	return ""
}

// addMounts adds everything that is mounted into a container. The caller must call release once the container was
// started or will not be, even after an error.
func (e *effects) addMounts(
	spec *runtime.ContainerSpec, p *v1.Pod, ips []string, known func(string) (string, bool),
) (release func() error, err error) {
	c := spec.Container
	mounts, release, err := e.volumes.Mounts(p, c, known)
	if err != nil {
		return release, err
	}

	hosts, err := e.hostsFile(p, c, ips)
	if err != nil {
		return release, err
	}
	if hosts != nil {
		mounts = append(mounts, *hosts)
	}

	possible := slices.Contains(e.recursive(), spec.Sandbox.Handler)
	for _, m := range mounts {
		if m.RecursiveReadOnly && !possible {
			return release, fmt.Errorf(
				"volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name)
		}
		spec.Mounts = append(spec.Mounts,
			runtime.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, ReadOnly: m.ReadOnly,
				RecursiveReadOnly: m.RecursiveReadOnly || m.RecursiveIfPossible && possible,
				Propagation:       m.Propagation})
	}

	devices, err := e.volumes.Devices(p, c)
	if err != nil {
		return release, err
	}
	for _, d := range devices {
		allowed := "mrw" // as upstream
		if d.ReadOnly {
			allowed = "r"
		}
		spec.Devices = append(spec.Devices,
			runtime.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: allowed})
	}

	last, err := e.terminationFile(p, c)
	if last != nil {
		spec.Mounts = append(spec.Mounts, *last)
	}
	return release, err
}

// hostsFile makes the hosts file of a pod. With hostNetwork it begins with the node's file, also on Windows, where
// such a pod can have an address of its own: upstream's kubelet does the same (pkg/kubelet/kubelet_pods.go of
// Kubernetes 1.36.3), and the conformance test KubeletManagedEtcHosts asks for it. The containers of a HostProcess pod
// see the node's own file.
func (e *effects) hostsFile(p *v1.Pod, c *v1.Container, ips []string) (*volume.Mount, error) {
	if e.windows && pod.AnyHostProcess(p) {
		return nil, nil
	}

	name, err := dns.NameOf(p, e.nodeName, e.dns.Domain)
	if err != nil {
		return nil, err
	}
	h := volume.Hosts{PodIPs: ips, HostName: name.Host, Domain: name.Domain, Aliases: p.Spec.HostAliases,
		HostNetwork: p.Spec.HostNetwork}
	if h.HostNetwork {
		h.Node, _ = os.ReadFile(volume.HostsFile(e.windows))
	}
	return e.volumes.EtcHosts(p, c, h)
}

// terminationFile makes the file in which a container may leave its termination message.
func (e *effects) terminationFile(p *v1.Pod, c *v1.Container) (*runtime.Mount, error) {
	if c.TerminationMessagePath == "" {
		return nil, nil
	}

	at := runtime.MessageFolder(string(p.UID), c.Name)
	var id [4]byte
	_, _ = rand.Read(id[:])
	name := hex.EncodeToString(id[:])
	if err := makeMessage(e.rootDir, at, name); err != nil {
		return nil, fmt.Errorf("creating the termination message file of container %s: %w", c.Name, err)
	}
	path := filepath.Join(append([]string{e.rootDir}, append(at, name)...)...)
	return &runtime.Mount{HostPath: path, ContainerPath: c.TerminationMessagePath}, nil
}

// makeMessage makes an empty file to which every container may write, in the folder that the elements lead to below
// root. It makes the folder too. It follows no links that lie below root, and takes no file that is there already.
func makeMessage(root string, elements []string, name string) error {
	top, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer top.Close()
	if err := top.MkdirAll(filepath.Join(elements...), 0o750); err != nil {
		return err
	}
	dir, err := beneath.Folder(root, elements...)
	if err != nil {
		return err
	}
	defer dir.Close()

	f, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	if !platform.IsWindows { // the umask does not matter
		err = f.Chmod(0o666)
	}
	return errors.Join(err, f.Close())
}

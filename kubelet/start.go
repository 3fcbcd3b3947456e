package kubelet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/env"
	"porthole.dev/porthole/kubelet/logs"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
)

var errNotFound = env.ErrNotFound

// startFacts is what the start of a container needs from the actor's state.
type startFacts struct {
	podIPs []string
	user   runtime.ImageUser
	target string
	// volumes are the references of images that are volumes, by the volume's name.
	volumes map[string]string
}

func (a *actor) first(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.onces[key]
	if a.onces == nil {
		a.onces = map[string]bool{}
	}
	a.onces[key] = true
	return !seen
}

func (a *actor) images(name string) runtime.ImageUser       { return a.users[name] }
func (a *actor) imageUser(name string, u runtime.ImageUser) { a.users[name] = u }

// targets is the id of the container whose processes an ephemeral container wants to see.
func (a *actor) targets(p *v1.Pod, name string) string {
	for _, e := range p.Spec.EphemeralContainers {
		if e.Name == name && e.TargetContainerName != "" {
			c, _ := a.state.Runtime.Latest(e.TargetContainerName)
			return c.ID
		}
	}
	return ""
}

func (a *actor) startContainer(ctx context.Context, p *v1.Pod, x pod.Action, f startFacts) fact {
	ctx = context.WithoutCancel(ctx)
	c := findContainer(p, x.Name)
	if c == nil {
		return nil
	}
	failed := func(reason string, err error) fact {
		event := "Failed"
		a.k.o.Meter.Container(p, x.Name, reason, volume.HostProcess(p, c))
		a.event(p, x.Name, v1.EventTypeWarning, event, "Error: "+err.Error())
		return func(s *pod.State) {
			fail(s, x.Name, err, reason, time.Second)
			delete(s.Images, x.Name) // it may be gone: the next try looks again
		}
	}
	spec, err := a.containerSpec(ctx, p, c, x, f)
	if spec.Release != nil {
		defer spec.Release()
	}
	if err != nil {
		return failed("CreateContainerConfigError", err)
	}
	spec.Created = func(id string) {
		a.event(p, x.Name, v1.EventTypeNormal, "Created", "Container created")
	}
	made, err := a.k.o.Runtime.StartContainer(ctx, spec)
	if err != nil {
		reason := "CreateContainerError"
		var step *runtime.StepError
		if errors.As(err, &step) {
			reason = step.Reason
		}
		out, seen := failed(reason, err), a.reread(ctx)
		return func(s *pod.State) {
			out(s)
			seen(s)
			if made.ID != "" {
				s.Runtime = s.Runtime.Merge(&pod.Runtime{Containers: []pod.Container{made}})
			}
		}
	}
	a.event(p, x.Name, v1.EventTypeNormal, "Started", "Container started")
	a.k.o.Meter.Container(p, x.Name, "", volume.HostProcess(p, c))
	a.linkLog(p, c.Name, made)
	return func(s *pod.State) {
		delete(s.Failures, x.Name)
		s.Runtime = s.Runtime.Merge(&pod.Runtime{Containers: []pod.Container{made}})
		if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
			a.postStart(p, c, made.ID)
		}
		delete(s.Images, x.Name) // the next start asks again, as the pull policy says
	}
}

func (a *actor) containerSpec(ctx context.Context, p *v1.Pod, c *v1.Container, x pod.Action, f startFacts) (runtime.ContainerSpec, error) {
	box, err := a.sandboxSpec(p, 0)
	if err != nil {
		return runtime.ContainerSpec{}, err
	}
	ips := f.podIPs
	if p.Spec.HostNetwork {
		ips = a.k.o.Node.IPs
	}
	vars, err := env.Container(env.Inputs{Pod: p, Container: c, PodIPs: ips, HostIPs: a.k.o.Node.IPs,
		NodeAllocatable: a.k.NodeAllocatable(), Services: a.k.o.API.Services(p.Namespace),
		ConfigMap: func(name string) (*v1.ConfigMap, error) {
			cm, err := a.k.o.API.ConfigMap(ctx, p.Namespace, name)
			if err != nil {
				return nil, notFound("configmap", p.Namespace, name, err)
			}
			return cm, nil
		},
		Secret: func(name string) (*v1.Secret, error) {
			s, err := a.k.o.API.Secret(ctx, p.Namespace, name)
			if err != nil {
				return nil, notFound("secret", p.Namespace, name, err)
			}
			return s, nil
		}})
	if err != nil {
		return runtime.ContainerSpec{}, err
	}
	spec := runtime.ContainerSpec{Sandbox: box, SandboxID: x.ID, Container: c, Attempt: x.Attempt, ImageRef: x.ImageRef,
		ImageUser: f.user, TargetID: f.target, Command: env.ExpandAll(c.Command, vars), Args: env.ExpandAll(c.Args, vars)}
	values := map[string]string{}
	for _, v := range vars {
		values[v.Name] = v.Value
		spec.Env = append(spec.Env, runtime.KeyValue{Name: v.Name, Value: v.Value})
	}
	release, err := a.addMounts(&spec, p, ips, func(n string) (string, bool) { v, ok := values[n]; return v, ok })
	spec.Release = release
	spec.Mounts = append(spec.Mounts, imageMounts(p, c, f.volumes)...)
	return spec, err
}

// addMounts adds everything that is mounted into a container. release is called once it was started or will not be.
func (a *actor) addMounts(spec *runtime.ContainerSpec, p *v1.Pod, ips []string, known func(string) (string, bool)) (release func(), err error) {
	c := spec.Container
	mounts, release, err := a.k.o.Volumes.Mounts(p, c, known)
	if err != nil {
		return release, err
	}
	hosts, err := a.hosts(p, c, ips)
	if err != nil {
		return release, err
	}
	if hosts != nil {
		mounts = append(mounts, *hosts)
	}
	for _, m := range mounts {
		spec.Mounts = append(spec.Mounts, runtime.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, ReadOnly: m.ReadOnly,
			RecursiveReadOnly: m.RecursiveReadOnly, Propagation: m.Propagation})
	}
	last, err := a.lastWords(p, c)
	if last != nil {
		spec.Mounts = append(spec.Mounts, *last)
	}
	return release, err
}

// hosts makes the hosts file of a pod. A HostProcess container sees the node's own.
func (a *actor) hosts(p *v1.Pod, c *v1.Container, ips []string) (*volume.Mount, error) {
	if a.k.o.Windows && volume.HostProcess(p, c) {
		return nil, nil
	}
	name, err := dns.NameOf(p, a.k.o.Node.Name, a.k.o.DNS.Domain)
	if err != nil {
		return nil, err
	}
	h := volume.Hosts{PodIPs: ips, HostName: name.Host, Domain: name.Domain, Aliases: p.Spec.HostAliases, HostNetwork: p.Spec.HostNetwork}
	if h.HostNetwork {
		h.Node, _ = os.ReadFile(volume.HostsFile(a.k.o.Windows))
	}
	return a.k.o.Volumes.EtcHosts(p, c, h)
}

// lastWords makes the file in which a container may leave its termination message.
func (a *actor) lastWords(p *v1.Pod, c *v1.Container) (*runtime.Mount, error) {
	if c.TerminationMessagePath == "" {
		return nil, nil
	}
	dir := filepath.Join(a.k.o.RootDir, "pods", string(p.UID), "containers", c.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("creating the folder of the termination message: %w", err)
	}
	var id [4]byte
	_, _ = rand.Read(id[:])
	path := filepath.Join(dir, hex.EncodeToString(id[:]))
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return nil, fmt.Errorf("creating the termination message file: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, fmt.Errorf("opening the termination message file to the container: %w", err)
	}
	return &runtime.Mount{HostPath: path, ContainerPath: c.TerminationMessagePath}, nil
}

// linkLog makes the symbolic link that log collectors look for, beside the pods' log folder. Where links do not exist,
// there is none.
func (a *actor) linkLog(p *v1.Pod, name string, c pod.Container) {
	dir := filepath.Join(filepath.Dir(a.k.o.PodLogsDir), "containers")
	if c.LogPath == "" || os.MkdirAll(dir, 0o755) != nil {
		return
	}
	prefix := p.Name + "_" + p.Namespace + "_" + name + "-"
	if len(prefix) > 250-len(c.ID) {
		prefix = prefix[:250-len(c.ID)]
	}
	_ = os.Symlink(c.LogPath, filepath.Join(dir, prefix+c.ID+".log"))
}

// removeLog removes the log of a container that the runtime no longer has, and the link to it.
func (a *actor) removeLog(c pod.Container) error {
	if c.LogPath == "" {
		return nil
	}
	links, _ := filepath.Glob(filepath.Join(filepath.Dir(a.k.o.PodLogsDir), "containers", "*-"+c.ID+".log"))
	for _, link := range links {
		_ = os.Remove(link)
	}
	return logs.Remove(c.LogPath)
}

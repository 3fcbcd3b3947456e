package effect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/env"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/userns"
)

// specs says what the runtime has to know to make the sandboxes and containers of a pod.
type specs struct {
	o *Options
	// warn sends an event about a pod, once for each key.
	warn func(p *v1.Pod, key, reason, message string)
}

// userIDs returns the ids of a pod that wants a user namespace of its own; nil for any other.
func (s *specs) userIDs(p *v1.Pod, handler string) (*userns.Range, error) {
	if p.Spec.HostUsers == nil || *p.Spec.HostUsers || s.o.Windows {
		return nil, nil
	}
	if err := s.o.Health().UserNamespaces(handler); err != nil {
		return nil, err
	}
	return s.o.Allot.UserIDs(p.UID)
}

// sandbox returns what the runtime has to know to make the sandbox of a pod.
func (s *specs) sandbox(p *v1.Pod, attempt uint32) (runtime.SandboxSpec, error) {
	settings := s.o.DNS
	if s.o.HostDNS != nil {
		settings.Host = s.o.HostDNS()
	}
	cfg, reason, message := dns.ForPod(p, settings)
	if reason != "" {
		s.warn(p, "dns/"+reason, reason, message)
	}

	name, err := dns.NameOf(p, s.o.NodeName, s.o.DNS.Domain)
	spec := runtime.SandboxSpec{Pod: p, Attempt: attempt, Groups: s.o.Groups.Groups(p),
		DNS: &runtime.DNS{Servers: cfg.Servers, Searches: cfg.Searches, Options: cfg.Options}}
	if !p.Spec.HostNetwork { // else it has the node's, and runtimes refuse to set one
		spec.Hostname = name.Kernel
	}
	spec.CgroupParent = s.o.Cgroups.Path(p)
	return spec, err
}

// classTimeout bounds the question for a class, so that a pod without sandbox is not held up by an API server that is
// away.
const classTimeout = 10 * time.Second

// handler fills in the runtime handler that the pod's class names; a pod without a class gets the default one.
// The API server refuses pods whose class does not exist; one that went since fails here, and the pod waits for it to
// return.
func (s *specs) handler(ctx context.Context, p *v1.Pod, spec *runtime.SandboxSpec) error {
	name := p.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, classTimeout)
	defer cancel()
	class, err := s.o.Objects.RuntimeClass(ctx, *name)
	if err != nil {
		return err
	}
	spec.Handler = class.Handler
	return nil
}

// container returns what the runtime has to know to make a container. The caller must call its Release even after
// an error.
func (s *specs) container(ctx context.Context, c *v1.Container, j Job) (runtime.ContainerSpec, error) {
	p := j.Pod
	box, err := s.sandbox(p, 0)
	if err != nil {
		return runtime.ContainerSpec{}, err
	}

	used, _ := j.Runtime.Sandbox()
	box.Handler = used.Handler
	if box.IDs, err = s.userIDs(p, used.Handler); err != nil {
		return runtime.ContainerSpec{}, err
	}
	ips := s.addresses(p, j.Runtime)

	vars, err := s.environment(ctx, p, c, ips)
	if err != nil {
		return runtime.ContainerSpec{}, err
	}

	spec := runtime.ContainerSpec{Sandbox: box, SandboxID: j.ID, Container: c, Attempt: j.Attempt, Reset: j.Reset,
		ImageRef:  j.ImageRef,
		ImageUser: runtime.ImageUser{UID: j.User.UID, Name: j.User.Name}, TargetID: targetOf(p, j.Name, j.Runtime),
		Command: env.ExpandAll(c.Command, vars), Args: env.ExpandAll(c.Args, vars)}
	values := map[string]string{}
	for _, v := range vars {
		values[v.Name] = v.Value
		spec.Env = append(spec.Env, runtime.KeyValue{Name: v.Name, Value: v.Value})
	}

	if err := s.o.Allot.AddTo(ctx, &spec); err != nil {
		return spec, err
	}
	spec.Release, err = s.addMounts(&spec, p, ips, func(n string) (string, bool) { v, ok := values[n]; return v, ok })
	spec.Mounts = append(spec.Mounts, imageMounts(p, c, j.ImageVolumes)...)
	return spec, err
}

// addresses returns the addresses that the containers of a pod get in their environment and hosts file. A pod with
// hostNetwork has the node's addresses. On Windows the runtime gives the host's network to HostProcess pods only
// (docs/windows-facts.md): any other pod has an address of its own, in the sandbox's status.
func (s *specs) addresses(p *v1.Pod, r *observed.Runtime) []string {
	box, _ := r.Sandbox()
	if p.Spec.HostNetwork && (!s.o.Windows || len(box.IPs) == 0) {
		return s.o.NodeIPs()
	}
	return box.IPs
}

// environment works out the environment variables of a container.
func (s *specs) environment(ctx context.Context, p *v1.Pod, c *v1.Container, ips []string) ([]env.Var, error) {
	return env.Container(env.Inputs{Pod: p, Container: c, PodIPs: ips, HostIPs: s.o.NodeIPs(),
		NodeAllocatable: s.o.Allocatable(), Services: s.o.Objects.Services(p.Namespace),
		ConfigMap: func(name string) (*v1.ConfigMap, error) {
			cm, err := s.o.Objects.ConfigMap(ctx, p.Namespace, name)
			if err != nil {
				return nil, notFound("configmap", p.Namespace, name, err)
			}
			return cm, nil
		},
		Secret: func(name string) (*v1.Secret, error) {
			secret, err := s.o.Objects.Secret(ctx, p.Namespace, name)
			if err != nil {
				return nil, notFound("secret", p.Namespace, name, err)
			}
			return secret, nil
		},
		File: func(volume, path string) (string, error) {
			text, err := s.o.Volumes.ReadFile(p, volume, path)
			if errors.Is(err, fs.ErrNotExist) {
				err = env.ErrNotFound
			}
			return text, err
		}})
}

// targetOf returns the id of the container whose processes an ephemeral container wants to see; empty for none.
func targetOf(p *v1.Pod, name string, r *observed.Runtime) string {
	for _, eph := range p.Spec.EphemeralContainers {
		if eph.Name == name && eph.TargetContainerName != "" {
			c, _ := r.Latest(eph.TargetContainerName)
			return c.ID
		}
	}
	return ""
}

func notFound(kind, namespace, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q not found: %w", kind, name, env.ErrNotFound)
	}
	return fmt.Errorf("reading %s %s/%s: %w", kind, namespace, name, err)
}

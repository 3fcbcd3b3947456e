package runtime

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod"
)

// Snapshot reads everything that the runtime knows about pods, by UID. With a UID, only that pod (which is then always in
// the answer). An error means: unknown, not nothing.
func (r *Runtime) Snapshot(ctx context.Context, uid string) (map[string]*pod.Runtime, error) {
	ctx, cancel := r.short(ctx)
	defer cancel()
	var selector map[string]string
	all := map[string]*pod.Runtime{}
	if uid != "" {
		selector = map[string]string{labelPodUID: uid}
		all[uid] = &pod.Runtime{UID: uid}
	}
	boxes, err := r.client.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{LabelSelector: selector}})
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	list, err := r.client.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{LabelSelector: selector}})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	owner := map[string]string{}
	for _, b := range boxes.Items {
		st, err := r.client.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: b.Id})
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the status of sandbox %s: %w", b.Id, err)
		}
		p := place(all, b.Labels)
		if p == nil {
			continue
		}
		owner[b.Id] = p.UID
		p.Sandboxes = append(p.Sandboxes, toSandbox(st.Status))
	}
	for _, c := range list.Containers {
		p := place(all, c.Labels)
		if p == nil {
			continue
		}
		full, err := r.container(ctx, c.Id)
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		full.SandboxID = c.PodSandboxId
		p.Containers = append(p.Containers, full)
	}
	return all, nil
}

// place finds or makes the pod that labels name; nil when the object is not a pod's.
func place(all map[string]*pod.Runtime, labels map[string]string) *pod.Runtime {
	uid := labels[labelPodUID]
	if uid == "" {
		return nil
	}
	p := all[uid]
	if p == nil {
		p = &pod.Runtime{UID: uid}
		all[uid] = p
	}
	p.Name, p.Namespace = labels[labelPodName], labels[labelPodNamespace]
	return p
}

func toSandbox(s *cri.PodSandboxStatus) pod.Sandbox {
	box := pod.Sandbox{ID: s.Id, Attempt: s.GetMetadata().GetAttempt(), Ready: s.State == cri.PodSandboxState_SANDBOX_READY,
		CreatedAt: time.Unix(0, s.CreatedAt), Handler: s.RuntimeHandler}
	box.HostNetwork = s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == cri.NamespaceMode_NODE &&
		s.GetLinux().GetNamespaces().GetOptions() != nil
	if ip := s.GetNetwork().GetIp(); ip != "" {
		box.IPs = append(box.IPs, ip)
	}
	for _, x := range s.GetNetwork().GetAdditionalIps() {
		box.IPs = append(box.IPs, x.Ip)
	}
	return box
}

func toContainer(c *cri.ContainerStatus) pod.Container {
	out := pod.Container{ID: c.Id, Name: c.Labels[labelContainerName], Attempt: c.GetMetadata().GetAttempt(),
		Hash: c.Annotations[annHash], Image: c.GetImage().GetUserSpecifiedImage(), ImageID: c.ImageRef, ExitCode: c.ExitCode,
		Reason: c.Reason, Message: c.Message, LogPath: c.LogPath,
		CreatedAt: at(c.CreatedAt), StartedAt: at(c.StartedAt), FinishedAt: at(c.FinishedAt)}
	if out.Image == "" {
		out.Image = c.GetImage().GetImage()
	}
	if n, err := strconv.ParseUint(c.Annotations[annRestartCount], 10, 32); err == nil {
		out.Attempt = uint32(n)
	}
	if l := c.GetUser().GetLinux(); l != nil {
		out.User = &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: l.Uid, GID: l.Gid, SupplementalGroups: l.SupplementalGroups}}
	}
	switch c.State {
	case cri.ContainerState_CONTAINER_RUNNING:
		out.State = pod.Running
	case cri.ContainerState_CONTAINER_CREATED:
		out.State = pod.Created
	default:
		out.State = pod.Exited
		if m := terminationMessage(c); m != "" {
			out.Message = m
		}
		if out.StartedAt.IsZero() && out.FinishedAt.IsZero() {
			out.FinishedAt = out.CreatedAt
		}
	}
	return out
}

func at(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// Bounds on what a container may leave as its last words, in bytes and lines; upstream's values.
const (
	maxMessageBytes = 4096
	maxLogBytes     = 2048
	maxLogLines     = 80
)

// terminationMessage reads what the container wrote as its last words.
func terminationMessage(c *cri.ContainerStatus) string {
	path := c.Annotations[annTerminationPath]
	for _, m := range c.Mounts {
		if path != "" && samePath(m.ContainerPath, path) {
			if text := readHead(m.HostPath, maxMessageBytes); text != "" {
				return text
			}
		}
	}
	if c.Annotations[annTerminationPolicy] == string(v1.TerminationMessageFallbackToLogsOnError) && c.ExitCode != 0 {
		return logTail(c.LogPath)
	}
	return ""
}

func readHead(path string, limit int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, limit)
	n, _ := f.Read(buf)
	return string(buf[:n])
}
